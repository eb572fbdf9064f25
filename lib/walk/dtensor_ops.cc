#include "walk/dtensor_ops.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <tuple>

#include "ops/index_items.h"
#include "ops/op_names.h"
#include "walk/causes.h"
#include "walk/dtensor_products.h"
#include "walk/dtensor_reductions.h"
#include "walk/dtensor_run.h"
#include "walk/dtensor_views.h"
#include "walk/finish_op.h"
#include "walk/node_args.h"
#include "walk/slots.h"
#include "walk/trace_step.h"

namespace tpplan {
namespace {

// What a call says of itself beside its operands.
OpCall described(DtensorRun& run) {
  OpCall call = call_of(run.walk, run.node);
  begin_call(call);
  return call;
}

void refuse(DtensorRun& run, std::string reason) {
  crash_at(run.walk, Code::TP5105, std::move(reason), run.rule, kNoRule, std::string(run.name));
}

// Whether an operand is a number: torch makes no tensor of it.
bool has_number(const DtensorRun& run, const OpCall& call) { return run.slots.size() < 2 && call.args.size() > 1; }

// Drops at random what it gets: an open sum would be dropped term by term.
bool drops_values(const OpCall& call) {
  const GraphArg* p = find_arg(call, 1, "p");
  return call.name == "dropout" && bool_at(call, 2, "training", true) && (p == nullptr || p->number != 0);
}

void run_pointwise(DtensorRun& run) {
  const OpCall call = described(run);
  Linearity linearity{};
  std::ignore = find_pointwise(run.name, linearity);
  // Which of its values `where` takes goes by a condition; only sums of two go on over open sums.
  if (run.name == "where" || (run.name == "copy" && !run.in_place)) linearity = Linearity::Other;
  const bool drops = drops_values(call);
  if (drops && open_mask(claim_of(run, 0)) != 0)
    return refuse(run, fmt::format("{} of a DTensor that is an open sum, which torch refuses", run.name));
  std::vector<std::optional<Way>> ways;
  for (size_t axis = 0; axis < run.claim.size(); ++axis) {
    std::vector<Face> faces = faces_of(run, axis);
    std::vector<Way> all = pointwise_ways(faces, linearity, has_number(run, call));
    const bool keeps_all = linearity == Linearity::Linear && faces[0].at.kind == PlacementKind::Partial;
    if (keeps_all && faces.size() == 1 && run.name != "neg") all.push_back({faces[0].at, {faces[0].at}});
    if (run.name == "copy" && faces.size() == 2) all.push_back({faces[0].at, {faces[0].at, faces[0].at}});
    ways.push_back(choose_way(all, faces,
                              {.ranks = static_cast<int64_t>(run.walk.table.maps.axes[axis]),
                               .takes_uneven = true,
                               .in_place = run.in_place}));
  }
  if (bring_all(run, ways)) settle(run);
}

// What stays open is a mean, a largest value or a norm where the operand's was.
void keep_reductions(DtensorRun& run) {
  for (size_t axis = 0; axis < run.claim.size(); ++axis) {
    for (size_t i = 0; i < run.slots.size() && run.claim[axis].kind == PlacementKind::Partial; ++i) {
      const Placement at = claim_of(run, i)[axis];
      if (at.kind == PlacementKind::Partial) run.claim[axis].op = at.op;
    }
  }
}

// Where the rule of the op has an answer for what the operands claim, that is the result's claim; else all are gathered
// first.
void run_by_rule(DtensorRun& run) {
  Walk& walk = run.walk;
  bool cut = false;
  for (size_t i = 0; i < run.slots.size(); ++i) cut = cut || !is_whole(claim_of(run, i));
  bool follows = !cut;
  if (cut) {
    const OpResult claimed = run_on(run, claimed_layouts(run));
    follows = claimed.crash.empty() && claimed.wrong.empty() && !claimed.unknown && !claimed.outs.empty() &&
              claim_for(walk, claimed.outs[0], run.claim);
    if (follows) keep_reductions(run);
  }
  if (!follows) {
    run.claim = whole_claim(walk);
    for (size_t i = 0; i < run.slots.size(); ++i) bring(run, i, run.claim);
  }
  if (walk.crash == kNoId) settle(run);
}

// Tensors put one behind the other follow one of them, which is whole along that dim (_ops/_tensor_ops.py, cat).
void run_cat(DtensorRun& run) {
  const OpCall call = described(run);
  const auto dim = static_cast<int>(from_end(number_at(call, 1, "dim", 0).traced, claimed_shape(run, 0).size()));
  std::vector<std::optional<Way>> ways;
  for (size_t axis = 0; axis < run.claim.size(); ++axis) {
    const std::vector<Face> faces = faces_of(run, axis);
    std::vector<Way> all;
    for (const Face& face : faces) {
      const Placement followed = is_shard(face.at) && face.at.dim == dim ? Placement{} : face.at;
      all.push_back({followed, std::vector<Placement>(faces.size(), followed)});
    }
    ways.push_back(
        choose_way(all, faces, {.ranks = static_cast<int64_t>(run.walk.table.maps.axes[axis]), .takes_uneven = true}));
  }
  if (bring_all(run, ways)) settle(run);
}

// A tensor like another goes as that is cut; a new one only where it has its sizes (new_factory_strategy).
void run_fill(DtensorRun& run) {
  const std::vector<int64_t> from = claimed_shape(run, 0), to = claimed_out_shape(run);
  run.claim = for_gradient(claim_of(run, 0));
  if (!run.name.ends_with("_like") && from != to) run.claim = whole_claim(run.walk);
  settle(run);
  const bool zero =
      run.name.find("zeros") != std::string_view::npos || run.name.find("empty") != std::string_view::npos;
  for (Spread& out : run.result.outs) out.zero = zero;
}

void run_unbind(DtensorRun& run) {
  const OpCall call = described(run);
  const auto dim = static_cast<int>(from_end(number_at(call, 1, "dim", 0).traced, claimed_shape(run, 0).size()));
  for (const Placement& placement : claim_of(run, 0)) {
    if (is_shard(placement) && placement.dim == dim)
      return refuse(run,
                    fmt::format("{} along dim {}, which is cut: torch wants it redistributed before", run.name, dim));
  }
  run_by_rule(run);
}

// A part of a dim that is cut is taken of the whole dim, even where each rank has its own elements of it
// (_ops/_tensor_ops.py, slice and select).
void gather_sliced(DtensorRun& run, const OpCall& call) {
  Claim to = claim_of(run, 0);
  const auto shape = shape_of(run, 0);
  for (const IndexItem& item : read_index(call, shape.size())) {
    bool is_part = item.kind == IndexKind::Number;
    if (item.kind == IndexKind::Slice) {
      const LocalSlice taken = slice_of(call, item, shape[item.dim], 0, true);
      is_part = taken.begin != 0 || taken.end != shape[item.dim] || taken.step != 1;
    }
    for (Placement& placement : to) {
      if (is_part && is_shard(placement) && static_cast<size_t>(placement.dim) == item.dim) placement = {};
    }
  }
  bring(run, 0, to);
}

// What an index may be among DTensors (torch 2.13: lists become plain tensors, masks and numbers that are written have
// no strategy).
void run_index(DtensorRun& run) {
  const OpCall call = described(run);
  for (const IndexItem& item : read_index(call, shape_of(run, 0).size())) {
    if (item.kind == IndexKind::List)
      return crash_at(run.walk, Code::TP5104,
                      fmt::format("{} indexes a DTensor by a list, which is a plain tensor", run.name), run.rule,
                      kNoRule, std::string(run.name));
    if (item.kind == IndexKind::Mask)
      return refuse(run, fmt::format("{} of a DTensor by a mask, which torch has no strategy for", run.name));
  }
  if (run.name == "__getitem__") gather_sliced(run, call);
  const GraphArg* value = find_arg(call, 2, "");
  if (run.name == "__setitem__" && value != nullptr && value->kind != ArgKind::Value)
    return refuse(run, "writes a number into a part of a DTensor, which torch has no strategy for");
  run_by_rule(run);
}

// A dim that is named from the end is brought together by nobody: each rank scans its own piece (torch 2.13,
// _ops/_math_ops.py, scan_strategy, which compares the number with those of the dims that are cut).
void run_scan(DtensorRun& run) {
  const OpCall call = described(run);
  const int64_t dim = number_at(call, 1, "dim", 0).traced;
  if (dim >= 0) return run_by_rule(run);
  const size_t scanned = from_end(dim, claimed_shape(run, 0).size());
  run.claim = claim_of(run, 0);
  for (Placement& placement : run.claim) {
    if (placement.kind == PlacementKind::Partial) placement = {};
    run.exact = run.exact && !(is_shard(placement) && static_cast<size_t>(placement.dim) == scanned);
  }
  bring(run, 0, run.claim);
  if (run.walk.crash == kNoId) settle(run);
}

void run_refused(DtensorRun& run) {
  refuse(run, fmt::format("torch has no sharding strategy for {} on DTensors", run.name));
}

void run_where(DtensorRun& run) {
  run.slots.size() == 1 && described(run).args.size() == 1 ? run_refused(run) : run_pointwise(run);
}

struct StrategyRow {
  std::string_view names;  // between blanks
  void (*run)(DtensorRun&);
  size_t operands = 1;  // at least
};

constexpr StrategyRow kStrategies[] = {
    {" linear ", run_linear, 2},
    {" matmul bmm mm ", run_matmul, 2},
    {" embedding ", run_embedding, 2},
    {" where ", run_where},
    {" view reshape flatten unflatten view_as reshape_as ", run_view},
    {" cat concat concatenate ", run_cat},
    {" layer_norm ", run_layer_norm},
    {" rms_norm ", run_rms_norm},
    {" normalize ", run_normalize},
    {" unbind ", run_unbind},
    {" cumsum cumprod logcumsumexp ", run_scan},
    {" __getitem__ __setitem__ ", run_index},
    {" zeros_like ones_like empty_like full_like rand_like randn_like new_zeros new_ones new_empty new_full ",
     run_fill},
    {" nonzero argwhere unfold im2col col2im cdist searchsorted stft istft masked_scatter unique bincount "
     "masked_select bilinear rnn_tanh rnn_relu scatter_reduce ",
     run_refused},
    {" repeat_interleave fill ", run_refused, 2},  // by a tensor
};

void run_strategy(DtensorRun& run) {
  for (const StrategyRow& row : kStrategies) {
    if (lists_op(row.names, run.name) && run.slots.size() >= row.operands) return row.run(run);
  }
  Linearity ignored{};
  if (find_pointwise(run.name, ignored)) return run_pointwise(run);
  if (is_open_reduction(run)) return run_reduction(run);
  run_by_rule(run);
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
  run.in_place = is_in_place(run.name);
  run.name = plain_op(run.name);
  for (const ValueId value : run.values) {
    const SlotId slot = walk.slot_of[value];
    run.slots.push_back(slot);
    if (layout_of(walk, slot).is_dtensor && run.rule == kNoRule) run.rule = walk.slots[slot].origin;
  }
  run.exact = true;
  for (size_t i = 0; i < run.slots.size(); ++i)
    run.exact = run.exact && (is_as_claimed(run, i) || !layout_of(walk, run.slots[i]).is_dtensor);
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
  entry.is_write = result.is_write;
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

// The key of WalkTables::memo with what torch looks at of DTensors besides: the bytes of their elements, by their
// types.
std::string key_of(const Walk& walk, const NodeOperands& seen) {
  std::string key = seen.key;
  for (const TapeSlot& in : seen.ins) {
    const Slot& slot = walk.slots[in.slot];
    const StringId recorded = walk.graph.values[slot.value].dtype;
    key.append(reinterpret_cast<const char*>(&recorded), sizeof recorded).append(slot.dtype) += '\0';
  }
  return key;
}

// Whether all that came of a run is its result: nothing was brought elsewhere, and nothing was found.
struct RunMark {
  size_t slots, tape, calls, causes, reports;
  bool operator==(const RunMark&) const = default;
};

RunMark mark_of_run(const Walk& walk) {
  return {walk.slots.size(), walk.tape.size(), walk.calls.size(), walk.causes.size(), walk.reports};
}

}  // namespace

void run_on_dtensors(Walk& walk, const GraphNode& node, uint32_t index, const NodeOperands& seen) {
  // Sizes come to other numbers for who asks a rank's own, and are asked for again.
  const std::string key = seen.sizes ? std::string() : key_of(walk, seen);
  if (const auto known = walk.tables.memo.find(key); !seen.sizes && known != walk.tables.memo.end()) {
    finish_op(walk, node, index, known->second, seen.ins);
    std::vector<SlotId> slots;
    for (const TapeSlot& in : seen.ins) slots.push_back(in.slot);
    return trace_operation(walk, node, index, slots);
  }
  DtensorRun run = begin_run(walk, node);
  if (mixes_tensors(run) && !(reads_sizes_only(run.name) && run.values.size() == 1))
    return crash_at(walk, Code::TP5104, fmt::format("{} gets a tensor and a DTensor", run.name), run.rule, kNoRule,
                    std::string(run.name));
  if (std::string reason = claimed_crash(run); !reason.empty())
    return crash_at(
        walk, Code::TP5102,
        fmt::format("{} (a DTensor's sizes are one rank's times {}, as torch takes them to be)", reason, walk.ranks),
        run.rule, kNoRule, std::string(run.name));
  const RunMark before = mark_of_run(walk);
  run_strategy(run);
  if (walk.crash != kNoId) return;
  MemoEntry entry = entry_of(run);
  const bool is_all = !seen.sizes && mark_of_run(walk) == before &&
                      std::equal(run.slots.begin(), run.slots.end(), seen.ins.begin(), seen.ins.end(),
                                 [](SlotId slot, const TapeSlot& in) { return slot == in.slot; });
  finish_op(walk, node, index, entry, tape_slots(run));
  trace_operation(walk, node, index, run.slots);
  if (is_all) walk.tables.memo.emplace(key, std::move(entry));
}

}  // namespace tpplan
