#include "walk/run/from_local.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "walk/report/append_call.h"
#include "walk/state/causes.h"
#include "walk/state/slots.h"
#include "walk/state/tape.h"

namespace tpplan {
namespace {

// By dim, its global size on each rank if it is known: local sizes are summed along one axis, so that the sums can
// differ.
using GlobalSizes = std::vector<std::vector<int64_t>>;

// Returns for each rank the sum of the local sizes along an axis.
std::vector<int64_t> added_up(const DimLayoutTable& maps, std::span<const int64_t> sizes, size_t axis) {
  std::vector<int64_t> sums(sizes.size());
  for (size_t rank = 0; rank < sizes.size(); ++rank) {
    for (size_t other = 0; other < sizes.size(); ++other) {
      bool is_peer = true;
      for (size_t i = 0; i < maps.axes.size(); ++i)
        is_peer = is_peer && (i == axis || coordinate(maps, rank, i) == coordinate(maps, other, i));
      sums[rank] += is_peer ? sizes[other] : 0;
    }
  }
  return sums;
}

// True if all ranks along the axis declare the same global size: torch multiplies the local size by the number of ranks
// (DTensor.from_local without a shape). Otherwise the run ends, because the next collective waits for other sizes.
bool declares_one_size(Walk& walk, const ValueLayout& layout, size_t axis, RuleId rule, RuleId origin) {
  const DimLayoutTable& maps = walk.memory.table.maps;
  const int dim = layout.declared[axis].dim;
  const std::vector<int64_t>& local = maps.maps[layout.dims[static_cast<size_t>(dim)]].local;
  const std::vector<int64_t> sums = added_up(maps, local, axis);
  for (size_t rank = 0; rank < local.size(); ++rank) {
    const auto ranks = static_cast<int64_t>(maps.axes[axis]);
    if (local[rank] * ranks == sums[rank]) continue;
    crash_at(walk, Code::OperandSizesDiffer,
             fmt::format("{} makes a DTensor of local shards whose sizes in dim {} differ: the ranks hold {}, so they "
                         "declare different global sizes, and the next collective fails or hangs",
                         style_name(walk, rule), dim, rank_sizes_text(local)),
             rule, origin);
    if (walk.out.crash != kNoId && walk.out.causes[walk.out.crash].help.empty()) {
      walk.out.causes[walk.out.crash].help = fmt::format(
          "use a batch and sequence length whose size in dim {} is a multiple of {}, or write "
          "`use_local_output: false` on the rule whose output comes in here",
          dim, ranks);
    }
    return false;
  }
  return true;
}

// Sets the declared shape. Returns false after a crash if a placement shards a dim that does not exist, or if ranks
// declare different shapes.
bool declare_shape(Walk& walk, ValueLayout& layout, GlobalSizeSource size_of, int64_t width, RuleId rule, RuleId origin,
                   GlobalSizes& sizes) {
  const DimLayoutTable& maps = walk.memory.table.maps;
  const size_t ndim = layout.dims.size();
  const auto shards = std::count_if(layout.declared.begin(), layout.declared.end(), is_shard);
  layout.declared_shape = local_shape(walk.memory.table, layout, 0);
  sizes.assign(ndim, {});
  for (size_t axis = 0; axis < layout.declared.size(); ++axis) {
    if (!is_shard(layout.declared[axis])) continue;
    const auto dim = static_cast<size_t>(layout.declared[axis].dim);
    if (dim >= ndim) {
      crash_at(walk, Code::UnsupportedCall,
               fmt::format("{} treats its input as sharded over dim {}, but it has {} dims", style_name(walk, rule),
                           layout.declared[axis].dim, ndim),
               rule);
      return false;
    }
    if (sizes[dim].empty()) sizes[dim] = maps.maps[layout.dims[dim]].local;
    if (width > 0 && (size_of == GlobalSizeSource::Width || (shards == 1 && dim + 1 == ndim))) {
      sizes[dim].assign(walk.in.ranks, width);
    } else if (size_of == GlobalSizeSource::Count) {
      sizes[dim] = added_up(maps, sizes[dim], axis);
      append_call(walk, false, CollectiveKind::AllReduce, axis, current_module(walk), {}, "int64");
    } else if (!declares_one_size(walk, layout, axis, rule, origin)) {
      return false;
    } else {
      layout.declared_shape[dim] *= static_cast<int64_t>(maps.axes[axis]);
      sizes[dim].clear();
    }
    if (!sizes[dim].empty()) layout.declared_shape[dim] = sizes[dim][0];
  }
  return true;
}

// Returns the local size of a rank that the placements require for a dim of `size`.
int64_t declared_length(const DimLayoutTable& maps, const DeclaredPlacements& declared, size_t dim, int64_t size,
                        size_t rank) {
  Interval wanted{0, size};
  for (size_t axis = 0; axis < declared.size(); ++axis) {
    if (is_shard(declared[axis]) && declared[axis].dim == static_cast<int>(dim))
      wanted = chunk(wanted, static_cast<int64_t>(maps.axes[axis]), static_cast<int64_t>(coordinate(maps, rank, axis)));
  }
  return length(wanted);
}

// Compares the local sizes with the declared ones. `origin`: the rule that determines the actual layout.
bool check_shards(Walk& walk, const ValueLayout& layout, const GlobalSizes& sizes, RuleId rule, RuleId origin) {
  const DimLayoutTable& maps = walk.memory.table.maps;
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    for (size_t rank = 0; rank < sizes[dim].size(); ++rank) {
      const int64_t wanted = declared_length(maps, layout.declared, dim, sizes[dim][rank], rank);
      if (local_size(walk.memory.table, layout, dim, rank) == wanted) continue;
      if (is_fully_replicated(maps, layout.dims[dim])) {
        crash_at(
            walk, Code::OperandSizesDiffer,
            fmt::format("{} expects an input that is sharded in dim {} over {} elements, {} on rank {}, but its input "
                        "is replicated",
                        style_name(walk, rule), dim, sizes[dim][rank], wanted, rank),
            rule, origin);
        return false;
      }
      crash_at(walk, Code::OperandSizesDiffer,
               fmt::format(
                   "{} treats its input as a shard of {} elements, of which rank {} has {}, but the local sizes are {}",
                   style_name(walk, rule), sizes[dim][rank], rank, wanted,
                   rank_sizes_text(maps.maps[layout.dims[dim]].local)),
               rule, origin);
      return false;
    }
  }
  return true;
}

}  // namespace

SlotId from_local(Walk& walk, SlotId in, std::span<const Placement> placements, GlobalSizeSource size_of, int64_t width,
                  RuleId rule) {
  ValueLayout layout = layout_of(walk, in);
  if (layout.is_dtensor) return in;
  layout.declared = normalised_placements(placements, layout.dims.size());
  layout.is_dtensor = true;
  layout.local_view = false;
  GlobalSizes sizes;
  if (!declare_shape(walk, layout, size_of, width, rule, walk.memory.slots[in].origin, sizes)) return in;
  if (!check_shards(walk, layout, sizes, rule, walk.memory.slots[in].origin)) return in;
  const SlotId out = derive_slot(walk, in, layout, rule);
  append_step(walk, TapeKind::FromLocal, in, out, gradient_placements(layout.declared), rule);
  return out;
}

SlotId to_local(Walk& walk, SlotId in, AxisMask partial_axes, RuleId rule) {
  ValueLayout layout = layout_of(walk, in);
  if (!layout.is_dtensor) return in;
  DeclaredPlacements gradient = gradient_placements(layout.declared);
  for (size_t axis = 0; axis < gradient.size(); ++axis) {
    if ((partial_axes & axis_bit(axis)) != 0 && layout.declared[axis].kind == PlacementKind::Replicate)
      gradient[axis].kind = PlacementKind::Partial;
  }
  layout.is_dtensor = false;
  layout.declared = {};
  layout.declared_shape.clear();
  layout.local_view = true;
  const SlotId out = derive_slot(walk, in, layout, kNoRule);
  append_step(walk, TapeKind::ToLocal, in, out, std::move(gradient), rule);
  return out;
}

}  // namespace tpplan
