#include "walk/dtensor_ops.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "walk/causes.h"
#include "walk/dtensor_products.h"
#include "walk/dtensor_run.h"
#include "walk/dtensor_views.h"
#include "walk/finish_op.h"
#include "walk/node_args.h"
#include "walk/slots.h"

namespace tpplan {
namespace {

// How many dims of size 1 broadcasting puts before an operand's.
int missing_dims(const DtensorRun& run, size_t operand) {
  size_t ndim = 0;
  for (const SlotId slot : run.slots) ndim = std::max(ndim, layout_of(run.walk, slot).dims.size());
  return static_cast<int>(ndim - layout_of(run.walk, run.slots[operand]).dims.size());
}

// Axis by axis: the first operand that is cut decides, and the others are cut as it is; open sums are closed first
// (torch 2.13, _ops/_pointwise_ops.py).
void run_pointwise(DtensorRun& run) {
  run.claim = whole_claim(run.walk);
  for (size_t i = 0; i < run.slots.size(); ++i) {
    bring(run, i, for_gradient(claim_of(run, i)));
    const Claim own = claim_of(run, i);
    for (size_t axis = 0; axis < own.size(); ++axis) {
      if (is_shard(run.claim[axis]) || !is_shard(own[axis])) continue;
      run.claim[axis] = own[axis];
      run.claim[axis].dim += missing_dims(run, i);
    }
  }
  const bool any_cut = std::any_of(run.claim.begin(), run.claim.end(), is_shard);
  for (size_t i = 0; i < run.slots.size() && any_cut; ++i) {
    Claim own = run.claim;
    for (Placement& placement : own) {
      if (!is_shard(placement)) continue;
      placement.dim -= missing_dims(run, i);
      const bool broadcasts = placement.dim < 0 || shape_of(run, i)[static_cast<size_t>(placement.dim)] == 1;
      if (broadcasts) placement = {};
    }
    bring(run, i, own);
  }
  if (run.walk.crash == kNoId) run.result = run_on(run, held_layouts(run));
}

// What is as it claims to be goes where the placements go.
void run_view(DtensorRun& run) {
  const auto to = shape_of(run.walk.graph, run.walk.graph.outs[run.node.out_begin]);
  const Claim from = claim_of(run, 0);
  const auto found = viewed(run.walk, from, shape_of(run, 0), to);
  if (!found)
    return crash_at(run.walk, Code::TP5103,
                    fmt::format("{} of a DTensor that is {} would move what ranks hold", run.name,
                                to_text(std::span<const Placement>(from))),
                    run.rule, kNoRule, std::string(run.name));
  run.claim = *found;
  give(run.result, placed_layout(run.walk.table, to, run.claim));
}

// Where the rule of the op has an answer for what the operands claim, that is the result's claim; else all are gathered
// first.
void run_by_rule(DtensorRun& run, bool cut) {
  Walk& walk = run.walk;
  bool follows = !cut;
  if (cut) {
    const OpResult claimed = run_on(run, claimed_layouts(run));
    follows = claimed.crash.empty() && claimed.wrong.empty() && !claimed.unknown && !claimed.outs.empty() &&
              claim_for(walk, claimed.outs[0], run.claim);
  }
  if (!follows) {
    run.claim = whole_claim(walk);
    for (size_t i = 0; i < run.slots.size(); ++i) bring(run, i, run.claim);
  }
  if (walk.crash == kNoId) run.result = run_on(run, held_layouts(run));
}

void run_strategy(DtensorRun& run) {
  Linearity ignored{};
  if (run.name == "linear" && run.slots.size() >= 2) return run_linear(run);
  if (run.name == "embedding" && run.slots.size() >= 2) return run_embedding(run);
  if (find_pointwise(run.name, ignored)) return run_pointwise(run);
  bool cut = false, as_claimed = true;
  for (size_t i = 0; i < run.slots.size(); ++i) {
    cut = cut || !is_whole(claim_of(run, i));
    as_claimed = as_claimed && is_as_claimed(run, i);
  }
  if (cut && is_view(run.name) && as_claimed) return run_view(run);
  run_by_rule(run, cut);
}

// Of what it is given these read no values, but sizes and types.
bool reads_sizes_only(std::string_view name) {
  return name == "to" || name == "zeros_like" || name == "ones_like" || name == "empty_like" || name == "full_like" ||
         name.starts_with("new_");
}

DtensorRun begin_run(Walk& walk, const GraphNode& node) {
  DtensorRun run{.walk = walk,
                 .node = node,
                 .name = walk.graph.strings[node.name],
                 .values = values_in(walk, node),
                 .slots = {},
                 .held_sizes = local_size_numbers(walk, node),
                 .result = {},
                 .claim = whole_claim(walk)};
  if (!run.name.starts_with("__") && run.name.ends_with('_')) run.name.remove_suffix(1);
  for (const ValueId value : run.values) {
    const SlotId slot = walk.slot_of[value];
    run.slots.push_back(slot);
    if (layout_of(walk, slot).is_dtensor && run.rule == kNoRule) run.rule = walk.slots[slot].origin;
  }
  return run;
}

// torch 2.13, _dispatch.py: "got mixed torch.Tensor and DTensor"; a scalar is made a whole DTensor without a word.
bool mixes_tensors(const DtensorRun& run) {
  return std::any_of(run.slots.begin(), run.slots.end(), [&](SlotId slot) {
    const Spread& layout = layout_of(run.walk, slot);
    int64_t count = 1;
    for (size_t dim = 0; dim < layout.dims.size(); ++dim) count *= local_size(run.walk.table, layout, dim, 0);
    return !layout.is_dtensor && count != 1;
  });
}

// The size of a whole dim as torch's DTensor has it: as many as the ranks along the axes that cut the dim hold.
int64_t claimed_size(const Walk& walk, const Spread& out, int dim) {
  int64_t sum = 0;
  for (size_t rank = 0; rank < walk.ranks; ++rank) {
    bool counts = true;
    for (size_t axis = 0; axis < out.claim.size(); ++axis) {
      const bool cuts = is_shard(out.claim[axis]) && out.claim[axis].dim == dim;
      counts = counts && (cuts || coordinate(walk.table.maps, rank, axis) == 0);
    }
    sum += counts ? local_size(walk.table, out, static_cast<size_t>(dim), rank) : 0;
  }
  return sum;
}

// A result as a DTensor that claims what torch chose.
Spread claiming(const DtensorRun& run, const Spread& held) {
  Spread out = held;
  out.wrong = out.local_view = false;
  out.is_dtensor = true;
  out.claim = normalised(run.claim, out.dims.size());
  out.claimed_shape = local_shape(run.walk.table, out, 0);
  for (const Placement& placement : out.claim) {
    if (is_shard(placement) && static_cast<size_t>(placement.dim) < out.dims.size())
      out.claimed_shape[static_cast<size_t>(placement.dim)] = claimed_size(run.walk, out, placement.dim);
  }
  return out;
}

MemoEntry entry_of(DtensorRun& run) {
  Walk& walk = run.walk;
  OpResult& result = run.result;
  // Whole values under an op without a rule stay whole.
  const bool whole = std::all_of(run.slots.begin(), run.slots.end(), [&](SlotId slot) {
    return layout_of(walk, slot).partial == 0 && is_all_whole(walk.table, layout_of(walk, slot));
  });
  MemoEntry entry;
  for (const Spread& out : result.outs) entry.outs.push_back(intern(walk.table, claiming(run, out)));
  entry.segments = std::move(result.segments);
  entry.segments_are_arguments = result.segments_are_arguments;
  entry.unknown = result.unknown && !whole;
  entry.crash = std::move(result.crash);
  entry.wrong = std::move(result.wrong);
  entry.code = result.code;
  return entry;
}

// The tape remembers the layouts that the operation saw, under the slots that gradients go to.
std::vector<TapeSlot> tape_slots(DtensorRun& run) {
  Walk& walk = run.walk;
  std::vector<TapeSlot> ins;
  for (size_t i = 0; i < run.slots.size(); ++i) {
    const Slot& seen = walk.slots[run.slots[i]];
    const SlotId own = walk.slot_of[run.values[i]];
    ins.push_back({own, seen.layout});
    if (seen.cause != kNoId && walk.slots[own].cause == kNoId) walk.slots[own].cause = seen.cause;
  }
  return ins;
}

}  // namespace

void run_on_dtensors(Walk& walk, const GraphNode& node, uint32_t index) {
  DtensorRun run = begin_run(walk, node);
  if (mixes_tensors(run) && !(reads_sizes_only(run.name) && run.values.size() == 1))
    return crash_at(walk, Code::TP5104, fmt::format("{} gets a tensor and a DTensor", run.name), run.rule, kNoRule,
                    std::string(run.name));
  run_strategy(run);
  if (walk.crash != kNoId) return;
  const MemoEntry entry = entry_of(run);
  finish_op(walk, node, index, entry, tape_slots(run));
}

}  // namespace tpplan
