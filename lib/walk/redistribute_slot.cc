#include "walk/redistribute_slot.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "sharding/dtype.h"
#include "walk/causes.h"
#include "walk/record_call.h"
#include "walk/slots.h"
#include "walk/tape.h"

namespace tpplan {
namespace {

// One axis of a redistribution.
struct Change {
  size_t axis = 0;
  Placement from, to;
};

// What goes wrong on the way: the first thing counts.
struct Fault {
  std::string reason;
  Code code = Code::TP5107;
};

void set_fault(Fault& fault, Code code, std::string reason) {
  if (fault.reason.empty()) fault = {std::move(reason), code};
}

void gather_axis(Walk& walk, Spread& layout, const Change& change, std::vector<int64_t>& shape, Fault& fault) {
  MapTable& maps = walk.table.maps;
  const auto dim = static_cast<size_t>(change.from.dim);
  const MapId map = layout.dims[dim];
  bool right = false;
  // Pieces are padded to the largest along the axis.
  for (size_t rank = 0; rank < walk.ranks; ++rank) {
    bool beside = true;
    for (size_t i = 0; i < maps.axes.size(); ++i)
      beside = beside && (i == change.axis || coordinate(maps, rank, i) == 0);
    if (beside) shape[dim] = std::max(shape[dim], maps.maps[map].local[rank]);
  }
  layout.dims[dim] = gathered_map(maps, map, change.axis, right);
  if ((layout.partial & axis_bit(change.axis)) != 0) set_fault(fault, Code::TP5108, "gathers a sum that is still open");
  if (!right)
    set_fault(fault, Code::TP5107, fmt::format("gathers dim {} as if it were cut: {}", dim, map_text(maps, map)));
  if (change.from.kind == PlacementKind::StridedShard && right) {
    // Torch puts the pieces back between each other.
    const DimMap gathered = maps.maps[layout.dims[dim]];
    RankRuns runs(walk.ranks);
    for (size_t rank = 0; rank < walk.ranks; ++rank) {
      runs[rank] = runs_of(gathered, rank);
      std::sort(runs[rank].begin(), runs[rank].end(),
                [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
    }
    layout.dims[dim] = runs_map(maps, gathered.size, std::move(runs));
  }
}

// The mean of what every rank has complete is that again.
void sum_axis(Walk& walk, Spread& layout, const Change& change, Fault& fault) {
  if ((cut_axes(walk.table, layout) & axis_bit(change.axis)) != 0)
    set_fault(fault, Code::TP5107, fmt::format("adds up different pieces: {}", layout_text(walk.table, layout)));
  else if ((layout.partial & axis_bit(change.axis)) == 0 && !layout.zero && change.from.op != ReduceOp::Avg)
    set_fault(fault, Code::TP5109,
              fmt::format("adds up {} times what every rank has complete", walk.table.maps.axes[change.axis]));
  layout.partial &= ~axis_bit(change.axis);
}

bool cut_axis(Walk& walk, Spread& layout, const Change& change, RuleId rule, Fault& fault) {
  const auto dim = static_cast<size_t>(change.to.dim);
  if (dim >= layout.dims.size()) {
    crash_at(walk, Code::TP5105, fmt::format("cuts dim {} of a tensor of {} dims", change.to.dim, layout.dims.size()),
             rule);
    return false;
  }
  MapTable& maps = walk.table.maps;
  const MapId held = layout.dims[dim];
  const bool fresh = (maps.maps[held].axes & axis_bit(change.axis)) == 0 && maps.maps[held].kind != MapKind::Any;
  if (!fresh)
    set_fault(fault, Code::TP5107,
              fmt::format("cuts dim {} again, of which ranks hold pieces: {}", dim, map_text(maps, held)));
  layout.dims[dim] =
      cut_map(maps, held, change.axis, change.to.kind == PlacementKind::StridedShard ? change.to.split_factor : 1);
  if (!fresh) layout.dims[dim] = any_map(maps, maps.maps[held].size, maps.maps[layout.dims[dim]].local);
  if ((layout.partial & axis_bit(change.axis)) != 0) set_fault(fault, Code::TP5108, "cuts a sum that is still open");
  return true;
}

// Casts what goes on in the type that it is sent in. False after a crash: ids have no gradient that could come back.
bool cast_sent(Walk& walk, SlotId in, SlotId out, const SentTypes& sent, RuleId rule) {
  if (sent.forward.empty()) return true;
  DType type{};
  if (find_dtype(dtype_of(walk, in), type) && dtypes()[type].kind != DTypeKind::Float) {
    crash_at(walk, Code::TP5105,
             fmt::format("{} sends its values in {}, and this one is {}", style_name(walk, rule), sent.forward,
                         dtype_of(walk, in)),
             rule, walk.slots[in].origin);
    return false;
  }
  set_dtype(walk, out, sent.forward, rule);
  return true;
}

// Nothing moves: the value is cast at most, and its gradient comes back over the tape.
SlotId stay(Walk& walk, SlotId in, const Claim& claim, const SentTypes& sent, RuleId rule) {
  const SlotId out = derived(walk, in, layout_of(walk, in), kNoRule);
  if (!cast_sent(walk, in, out, sent, rule)) return in;
  if (dtype_of(walk, in) != dtype_of(walk, out)) walk.slots[out].memory = SlotMemory::Copy;
  record_step(walk, TapeKind::Redistribute, in, out, claim, rule, 0, sent.backward);
  return out;
}

}  // namespace

SlotId cast_slot(Walk& walk, SlotId in, const SentTypes& sent, RuleId rule) {
  const SlotId out = derived(walk, in, layout_of(walk, in), kNoRule);
  if (!cast_sent(walk, in, out, sent, rule)) return in;
  walk.slots[out].memory = SlotMemory::Copy;
  record_step(walk, TapeKind::Cast, in, out, {}, rule);
  return out;
}

SlotId redistribute_slot(Walk& walk, SlotId in, std::span<const Placement> wanted, bool on_tape,
                         const SentTypes& sent) {
  Spread layout = layout_of(walk, in);
  const Claim from = layout.claim, to = normalised(wanted, layout.dims.size());
  const RuleId rule = walk.frames.empty() ? kNoRule : walk.frames.back().rule;
  if (from == to) return sent.forward.empty() && sent.backward.empty() ? in : stay(walk, in, from, sent, rule);
  const bool was_wrong = layout.wrong;
  const RuleId before = walk.slots[in].origin;
  const auto steps = redistribute(from, to);
  if (!steps) {
    crash_at(walk, Code::TP5105, "makes an open sum of a value that is none", rule, before);
    return in;
  }
  Fault fault;
  Claim current = from;
  for (const Collective& step : *steps) {
    const Change change{step.axis, current[step.axis], placement_after(step, to)};
    std::vector<int64_t> shape = local_shape(walk.table, layout, 0);
    if (is_shard(change.from))
      gather_axis(walk, layout, change, shape, fault);
    else if (change.from.kind == PlacementKind::Partial)
      sum_axis(walk, layout, change, fault);
    pad_pieces(shape, step, static_cast<int64_t>(walk.table.maps.axes[step.axis]));
    if (step.kind != CollectiveKind::LocalSlice)
      record_call(walk, false, step.kind, change.axis, module_at(walk), std::move(shape),
                  sent.forward.empty() ? dtype_of(walk, in) : sent.forward, !on_tape);
    if (is_shard(change.to) && !cut_axis(walk, layout, change, rule, fault)) return in;
    current[step.axis] = change.to;
  }
  layout.claim = to;
  // Gathering and summing make something new; a slice of a whole value stays the plan's.
  const SlotId out = derived(walk, in, layout, rule);
  const bool gathers = std::any_of(steps->begin(), steps->end(),
                                   [](const Collective& step) { return step.kind == CollectiveKind::AllGather; });
  walk.slots[out].memory = gathers ? SlotMemory::Gathered : SlotMemory::Copy;
  if (!cast_sent(walk, in, out, sent, rule)) return in;
  if (on_tape) record_step(walk, TapeKind::Redistribute, in, out, from, rule, 0, sent.backward);
  if (!fault.reason.empty() && !was_wrong) {
    const std::string who = rule == kNoRule ? "an operation on DTensors" : style_name(walk, rule);
    spoil(walk, out, fault.code, fmt::format("{} {}", who, fault.reason), rule, before, who);
  }
  return out;
}

}  // namespace tpplan
