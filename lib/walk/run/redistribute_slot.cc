#include "walk/run/redistribute_slot.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "sharding/dtype.h"
#include "walk/report/append_call.h"
#include "walk/state/causes.h"
#include "walk/state/slots.h"
#include "walk/state/tape.h"

namespace tpplan {
namespace {

// The change of one axis in a redistribution.
struct AxisChange {
  size_t axis = 0;
  Placement from, to;
};

// The first error of a redistribution.
struct AxisError {
  std::string reason;
  Code code = Code::ShardsMismatch;
};

void set_error(AxisError& fault, Code code, std::string reason) {
  if (fault.reason.empty()) fault = {std::move(reason), code};
}

void gather_axis(Walk& walk, ValueLayout& layout, const AxisChange& change, std::vector<int64_t>& shape,
                 AxisError& fault) {
  DimLayoutTable& maps = walk.memory.table.maps;
  const auto dim = static_cast<size_t>(change.from.dim);
  const DimLayoutId map = layout.dims[dim];
  bool right = false;
  // Shards are padded to the largest one along the axis.
  for (size_t rank = 0; rank < walk.in.ranks; ++rank) {
    bool is_peer = true;
    for (size_t i = 0; i < maps.axes.size(); ++i)
      is_peer = is_peer && (i == change.axis || coordinate(maps, rank, i) == 0);
    if (is_peer) shape[dim] = std::max(shape[dim], maps.maps[map].local[rank]);
  }
  layout.dims[dim] = gathered_dim(maps, map, change.axis, right);
  if ((layout.partial & axis_bit(change.axis)) != 0)
    set_error(fault, Code::PartialUsedAsFull, "gathers a pending partial sum as if it were the full sum");
  if (!right)
    set_error(fault, Code::ShardsMismatch,
              fmt::format("gathers dim {}, which is not sharded over the axis: {}", dim, dim_layout_text(maps, map)));
  if (change.from.kind == PlacementKind::StridedShard && right) {
    // Torch restores the global order of strided shards.
    const DimLayout gathered = maps.maps[layout.dims[dim]];
    RankIntervals intervals(walk.in.ranks);
    for (size_t rank = 0; rank < walk.in.ranks; ++rank) {
      intervals[rank] = rank_intervals(gathered, rank);
      std::sort(intervals[rank].begin(), intervals[rank].end(),
                [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
    }
    layout.dims[dim] = layout_of_intervals(maps, gathered.size, std::move(intervals));
  }
}

// Reduces over one axis. The mean of a complete value is the value itself, and no error.
void sum_axis(Walk& walk, ValueLayout& layout, const AxisChange& change, AxisError& fault) {
  if ((sharding_axes(walk.memory.table, layout) & axis_bit(change.axis)) != 0)
    set_error(fault, Code::ShardsMismatch,
              fmt::format("adds up different shards: {}", layout_text(walk.memory.table, layout)));
  else if ((layout.partial & axis_bit(change.axis)) == 0 && !layout.zero && change.from.op != ReduceOp::Avg)
    set_error(fault, Code::ReplicatedValueReduced,
              fmt::format("sums a replicated value: it counts {} times", walk.memory.table.maps.axes[change.axis]));
  layout.partial &= ~axis_bit(change.axis);
}

bool shard_axis(Walk& walk, ValueLayout& layout, const AxisChange& change, RuleId rule, AxisError& fault) {
  const auto dim = static_cast<size_t>(change.to.dim);
  if (dim >= layout.dims.size()) {
    crash_at(walk, Code::UnsupportedCall,
             fmt::format("shards dim {}, but the tensor has {} dims", change.to.dim, layout.dims.size()), rule);
    return false;
  }
  DimLayoutTable& maps = walk.memory.table.maps;
  const DimLayoutId held = layout.dims[dim];
  const bool fresh = (maps.maps[held].axes & axis_bit(change.axis)) == 0 && maps.maps[held].kind != DimLayoutKind::Any;
  if (!fresh)
    set_error(fault, Code::ShardsMismatch,
              fmt::format("shards dim {}, which is already sharded: {}", dim, dim_layout_text(maps, held)));
  layout.dims[dim] =
      sharded_dim(maps, held, change.axis, change.to.kind == PlacementKind::StridedShard ? change.to.split_factor : 1);
  if (!fresh) layout.dims[dim] = unknown_dim(maps, maps.maps[held].size, maps.maps[layout.dims[dim]].local);
  if ((layout.partial & axis_bit(change.axis)) != 0)
    set_error(fault, Code::PartialUsedAsFull, "shards a pending partial sum as if it were the full sum");
  return true;
}

// Casts the result to the dtype in which the value is sent. Returns false after a crash if its dtype is not a float,
// because such values have no gradient.
bool cast_sent(Walk& walk, SlotId in, SlotId out, const SentTypes& sent, RuleId rule) {
  if (sent.forward.empty()) return true;
  DType type{};
  if (find_dtype(dtype_of(walk, in), type) && dtypes()[type].kind != DTypeKind::Float) {
    crash_at(walk, Code::UnsupportedCall,
             fmt::format("{} sends floating-point values in {}, but this value is {}", style_name(walk, rule),
                         sent.forward, dtype_of(walk, in)),
             rule, walk.memory.slots[in].origin);
    return false;
  }
  set_dtype(walk, out, sent.forward, rule);
  return true;
}

// Returns a new slot with the same placements: at most a cast, but its backward is on the tape.
SlotId stay(Walk& walk, SlotId in, const DeclaredPlacements& declared, const SentTypes& sent, RuleId rule) {
  const SlotId out = derive_slot(walk, in, layout_of(walk, in), kNoRule);
  if (!cast_sent(walk, in, out, sent, rule)) return in;
  if (dtype_of(walk, in) != dtype_of(walk, out)) walk.memory.slots[out].memory = SlotMemory::Copy;
  append_step(walk, TapeKind::Redistribute, in, out, declared, rule, 0, sent.backward);
  return out;
}

}  // namespace

SlotId cast_slot(Walk& walk, SlotId in, const SentTypes& sent, RuleId rule) {
  const SlotId out = derive_slot(walk, in, layout_of(walk, in), kNoRule);
  if (!cast_sent(walk, in, out, sent, rule)) return in;
  walk.memory.slots[out].memory = SlotMemory::Copy;
  append_step(walk, TapeKind::Cast, in, out, {}, rule);
  return out;
}

SlotId redistribute_slot(Walk& walk, SlotId in, std::span<const Placement> wanted, bool on_tape,
                         const SentTypes& sent) {
  ValueLayout layout = layout_of(walk, in);
  const DeclaredPlacements from = layout.declared, to = normalised_placements(wanted, layout.dims.size());
  const RuleId rule = walk.memory.frames.empty() ? kNoRule : walk.memory.frames.back().rule;
  if (from == to) return sent.forward.empty() && sent.backward.empty() ? in : stay(walk, in, from, sent, rule);
  const bool was_wrong = layout.wrong;
  const RuleId before = walk.memory.slots[in].origin;
  const auto steps = redistribute(from, to);
  if (!steps) {
    crash_at(walk, Code::UnsupportedCall, "a full value cannot be redistributed to Partial", rule, before);
    return in;
  }
  AxisError fault;
  DeclaredPlacements current = from;
  for (const Collective& step : *steps) {
    const AxisChange change{step.axis, current[step.axis], placement_after(step, to)};
    std::vector<int64_t> shape = local_shape(walk.memory.table, layout, 0);
    if (is_shard(change.from))
      gather_axis(walk, layout, change, shape, fault);
    else if (change.from.kind == PlacementKind::Partial)
      sum_axis(walk, layout, change, fault);
    pad_shards(shape, step, static_cast<int64_t>(walk.memory.table.maps.axes[step.axis]));
    if (step.kind != CollectiveKind::LocalSlice)
      append_call(walk, false, step.kind, change.axis, current_module(walk), std::move(shape),
                  sent.forward.empty() ? dtype_of(walk, in) : sent.forward, !on_tape);
    if (is_shard(change.to) && !shard_axis(walk, layout, change, rule, fault)) return in;
    current[step.axis] = change.to;
  }
  layout.declared = to;
  // An all_gather allocates the full tensor, every other step a copy.
  const SlotId out = derive_slot(walk, in, layout, rule);
  const bool gathers = std::any_of(steps->begin(), steps->end(),
                                   [](const Collective& step) { return step.kind == CollectiveKind::AllGather; });
  walk.memory.slots[out].memory = gathers ? SlotMemory::Gathered : SlotMemory::Copy;
  if (!cast_sent(walk, in, out, sent, rule)) return in;
  if (on_tape) append_step(walk, TapeKind::Redistribute, in, out, from, rule, 0, sent.backward);
  if (!fault.reason.empty() && !was_wrong) {
    const std::string converter = rule == kNoRule ? "a DTensor operation" : style_name(walk, rule);
    mark_slot_wrong(walk, out, fault.code, fmt::format("{} {}", converter, fault.reason), rule, before, converter);
  }
  return out;
}

}  // namespace tpplan
