#include "walk/from_local.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "walk/causes.h"
#include "walk/record_call.h"
#include "walk/slots.h"
#include "walk/tape.h"

namespace tpplan {
namespace {

// By dim, those whose size is known: by rank, because ranks that count come to sizes of their own.
using WholeSizes = std::vector<std::vector<int64_t>>;

// The sizes of a dim that pieces of these sizes make along an axis, by rank.
std::vector<int64_t> added_up(const MapTable& maps, std::span<const int64_t> sizes, size_t axis) {
  std::vector<int64_t> sums(sizes.size());
  for (size_t rank = 0; rank < sizes.size(); ++rank) {
    for (size_t other = 0; other < sizes.size(); ++other) {
      bool beside = true;
      for (size_t i = 0; i < maps.axes.size(); ++i)
        beside = beside && (i == axis || coordinate(maps, rank, i) == coordinate(maps, other, i));
      sums[rank] += beside ? sizes[other] : 0;
    }
  }
  return sums;
}

// Sets the shape that the DTensor claims. False where it is cut along a dim that it has not.
bool claim_shape(Walk& walk, Spread& layout, SizeOf size_of, int64_t width, RuleId rule, WholeSizes& sizes) {
  const MapTable& maps = walk.table.maps;
  const size_t ndim = layout.dims.size();
  const auto cuts = std::count_if(layout.claim.begin(), layout.claim.end(), is_shard);
  layout.claimed_shape = local_shape(walk.table, layout, 0);
  sizes.assign(ndim, {});
  for (size_t axis = 0; axis < layout.claim.size(); ++axis) {
    if (!is_shard(layout.claim[axis])) continue;
    const auto dim = static_cast<size_t>(layout.claim[axis].dim);
    if (dim >= ndim) {
      crash_at(walk, Code::TP5105,
               fmt::format("{} takes its input for cut along dim {}, and it has {} dims", style_name(walk, rule),
                           layout.claim[axis].dim, ndim),
               rule);
      return false;
    }
    if (sizes[dim].empty()) sizes[dim] = maps.maps[layout.dims[dim]].local;
    if (width > 0 && (size_of == SizeOf::Width || (cuts == 1 && dim + 1 == ndim))) {
      sizes[dim].assign(walk.ranks, width);
    } else if (size_of == SizeOf::Count) {
      sizes[dim] = added_up(maps, sizes[dim], axis);
      record_call(walk, false, CollectiveKind::AllReduce, axis, module_at(walk), {}, "int64");
    } else {
      layout.claimed_shape[dim] *= static_cast<int64_t>(maps.axes[axis]);
      sizes[dim].clear();
    }
    if (!sizes[dim].empty()) layout.claimed_shape[dim] = sizes[dim][0];
  }
  return true;
}

// What a rank must hold of a dim of `size`, by the claim.
int64_t claimed_length(const MapTable& maps, const Claim& claim, size_t dim, int64_t size, size_t rank) {
  Interval wanted{0, size};
  for (size_t axis = 0; axis < claim.size(); ++axis) {
    if (is_shard(claim[axis]) && claim[axis].dim == static_cast<int>(dim))
      wanted = chunk(wanted, static_cast<int64_t>(maps.axes[axis]), static_cast<int64_t>(coordinate(maps, rank, axis)));
  }
  return length(wanted);
}

// `origin`: of what is held.
bool check_pieces(Walk& walk, const Spread& layout, const WholeSizes& sizes, RuleId rule, RuleId origin) {
  const MapTable& maps = walk.table.maps;
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    for (size_t rank = 0; rank < sizes[dim].size(); ++rank) {
      const int64_t wanted = claimed_length(maps, layout.claim, dim, sizes[dim][rank], rank);
      if (local_size(walk.table, layout, dim, rank) == wanted) continue;
      crash_at(
          walk, Code::TP5102,
          fmt::format("{} takes its input for a piece of {} elements, of which rank {} has {}, and the ranks hold {}",
                      style_name(walk, rule), sizes[dim][rank], rank, wanted,
                      rank_sizes_text(maps.maps[layout.dims[dim]].local)),
          rule, origin);
      return false;
    }
  }
  return true;
}

}  // namespace

SlotId from_local(Walk& walk, SlotId in, std::span<const Placement> placements, SizeOf size_of, int64_t width,
                  RuleId rule) {
  Spread layout = layout_of(walk, in);
  if (layout.is_dtensor) return in;
  layout.claim = normalised(placements, layout.dims.size());
  layout.is_dtensor = true;
  layout.local_view = false;
  WholeSizes sizes;
  if (!claim_shape(walk, layout, size_of, width, rule, sizes)) return in;
  if (!check_pieces(walk, layout, sizes, rule, walk.slots[in].origin)) return in;
  const SlotId out = derived(walk, in, layout, rule);
  record_step(walk, TapeKind::FromLocal, in, out, for_gradient(layout.claim), rule);
  return out;
}

SlotId to_local(Walk& walk, SlotId in, AxisMask open, RuleId rule) {
  Spread layout = layout_of(walk, in);
  if (!layout.is_dtensor) return in;
  Claim gradient = for_gradient(layout.claim);
  for (size_t axis = 0; axis < gradient.size(); ++axis) {
    if ((open & axis_bit(axis)) != 0 && layout.claim[axis].kind == PlacementKind::Replicate)
      gradient[axis].kind = PlacementKind::Partial;
  }
  layout.is_dtensor = false;
  layout.claim = {};
  layout.claimed_shape.clear();
  layout.local_view = true;
  const SlotId out = derived(walk, in, layout, kNoRule);
  record_step(walk, TapeKind::ToLocal, in, out, std::move(gradient), rule);
  return out;
}

}  // namespace tpplan
