#include "walk/operation/dtensor_ops.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "ops/index_items.h"
#include "ops/op_rules.h"
#include "walk/dtensor/dtensor_matmuls.h"
#include "walk/dtensor/dtensor_reductions.h"
#include "walk/dtensor/dtensor_run.h"
#include "walk/dtensor/dtensor_views.h"
#include "walk/operation/finish_op.h"
#include "walk/operation/loss_parallel.h"
#include "walk/state/causes.h"
#include "walk/state/node_args.h"
#include "walk/state/slots.h"
#include "walk/state/trace_step.h"

namespace tpplan {
namespace {

// Returns the call with its arguments in the form that rules expect.
OpCall described(DtensorRun& run) {
  OpCall call = op_call_of(run.walk, run.node);
  prepare_call(call);
  return call;
}

void reject(DtensorRun& run, std::string reason) {
  crash_at(run.walk, Code::UnsupportedCall, std::move(reason), run.rule, kNoRule, std::string(run.name));
}

// True if an operand is a number, of which torch makes no tensor.
bool has_number(const DtensorRun& run, const OpCall& call) { return run.slots.size() < 2 && call.args.size() > 1; }

// True for an active dropout, which would drop the partial values of each rank separately.
bool drops_values(const OpCall& call) {
  const GraphArg* p = find_arg(call, 1, "p");
  return call.node.op == OpId::Dropout && bool_at(call, 2, "training", true) && (p == nullptr || p->number != 0);
}

void run_pointwise(DtensorRun& run) {
  const OpCall call = described(run);
  const OpId op = run.node.op;
  Linearity linearity = op_row(op).linearity;
  // `where` selects by a condition, so that it has no strategy for partial values. That of `copy` is added below.
  if (op == OpId::Where || (op == OpId::Copy && !run.node.in_place)) linearity = Linearity::Other;
  const bool drops = drops_values(call);
  if (drops && partial_mask(declared_of(run, 0)) != 0)
    return reject(run, fmt::format("{} of a DTensor that is Partial, which torch rejects", run.name));
  std::vector<std::optional<Strategy>> strategies;
  for (size_t axis = 0; axis < run.declared.size(); ++axis) {
    std::vector<OperandSpec> specs = operand_specs(run, axis);
    std::vector<Strategy> all = pointwise_strategies(specs, linearity, has_number(run, call));
    const bool is_linear_partial = linearity == Linearity::Linear && specs[0].at.kind == PlacementKind::Partial;
    if (is_linear_partial && specs.size() == 1 && op != OpId::Neg) all.push_back({specs[0].at, {specs[0].at}});
    if (op == OpId::Copy && specs.size() == 2) all.push_back({specs[0].at, {specs[0].at, specs[0].at}});
    strategies.push_back(choose_strategy(all, specs,
                                         {.ranks = static_cast<int64_t>(run.walk.memory.table.maps.axes[axis]),
                                          .takes_uneven = true,
                                          .in_place = run.node.in_place}));
  }
  if (redistribute_operands(run, strategies)) compute_result(run);
}

// Copies the reduce op of a partial operand to the result: a mean, maximum or norm stays one.
void declare_reductions(DtensorRun& run) {
  for (size_t axis = 0; axis < run.declared.size(); ++axis) {
    for (size_t i = 0; i < run.slots.size() && run.declared[axis].kind == PlacementKind::Partial; ++i) {
      const Placement at = declared_of(run, i)[axis];
      if (at.kind == PlacementKind::Partial) run.declared[axis].op = at.op;
    }
  }
}

// Takes the placements of the result from the rule of the operation, applied to the declared layouts. If it has no
// result for them, all operands are gathered first.
void run_by_rule(DtensorRun& run) {
  Walk& walk = run.walk;
  bool has_shard = false;
  for (size_t i = 0; i < run.slots.size(); ++i) has_shard = has_shard || !is_fully_replicated(declared_of(run, i));
  bool follows = !has_shard;
  if (has_shard) {
    const OpResult expected = run_rule_on(run, declared_layouts(run));
    follows = expected.crash.empty() && expected.wrong.empty() && !expected.unknown && !expected.outs.empty() &&
              find_declared_placements(walk, expected.outs[0], run.declared);
    if (follows) declare_reductions(run);
  }
  if (!follows) {
    run.declared = replicated_placements(walk);
    for (size_t i = 0; i < run.slots.size(); ++i) redistribute_operand(run, i, run.declared);
  }
  if (walk.out.crash == kNoId) compute_result(run);
}

// Runs a cat. Each strategy uses the placement of one operand for all, replicated if it shards the dim of the cat
// (_ops/_tensor_ops.py, cat).
void run_cat(DtensorRun& run) {
  const OpCall call = described(run);
  const auto dim = static_cast<int>(dim_index(number_at(call, 1, "dim", 0).traced, declared_shape(run, 0).size()));
  std::vector<std::optional<Strategy>> strategies;
  for (size_t axis = 0; axis < run.declared.size(); ++axis) {
    const std::vector<OperandSpec> specs = operand_specs(run, axis);
    std::vector<Strategy> all;
    for (const OperandSpec& spec_of_operand : specs) {
      const Placement followed =
          is_shard(spec_of_operand.at) && spec_of_operand.at.dim == dim ? Placement{} : spec_of_operand.at;
      all.push_back({followed, std::vector<Placement>(specs.size(), followed)});
    }
    strategies.push_back(choose_strategy(
        all, specs, {.ranks = static_cast<int64_t>(run.walk.memory.table.maps.axes[axis]), .takes_uneven = true}));
  }
  if (redistribute_operands(run, strategies)) compute_result(run);
}

// Runs a tensor factory. A result of `*_like` has the placements of the operand; a result of `new_*` has them only if
// it has the sizes of the operand (new_factory_strategy).
void run_fill(DtensorRun& run) {
  const FillSpec& fill = op_row(run.node.op).fill;
  const std::vector<int64_t> from = declared_shape(run, 0), to = declared_out_shape(run);
  run.declared = gradient_placements(declared_of(run, 0));
  if (fill.size != FillSize::Like && from != to) run.declared = replicated_placements(run.walk);
  compute_result(run);
  for (ValueLayout& out : run.result.outs) out.zero = fill.is_zero;
}

void run_unbind(DtensorRun& run) {
  const OpCall call = described(run);
  const auto dim = static_cast<int>(dim_index(number_at(call, 1, "dim", 0).traced, declared_shape(run, 0).size()));
  for (const Placement& placement : declared_of(run, 0)) {
    if (is_shard(placement) && placement.dim == dim)
      return reject(run, fmt::format("{} along sharded dim {}: torch requires a redistribution first", run.name, dim));
  }
  run_by_rule(run);
}

// Gathers sharded dims of which a part is selected, even if each rank selects its local elements (_ops/_tensor_ops.py,
// slice and select).
void gather_sliced(DtensorRun& run, const OpCall& call) {
  DeclaredPlacements to = declared_of(run, 0);
  const auto shape = shape_of(run, 0);
  for (const IndexItem& item : read_index(call, shape.size())) {
    bool is_part = item.kind == IndexKind::Number;
    if (item.kind == IndexKind::Slice) {
      const LocalSlice taken = slice_of_item(call, item, shape[item.dim], 0, true);
      is_part = taken.begin != 0 || taken.end != shape[item.dim] || taken.step != 1;
    }
    for (Placement& placement : to) {
      if (is_part && is_shard(placement) && static_cast<size_t>(placement.dim) == item.dim) placement = {};
    }
  }
  redistribute_operand(run, 0, to);
}

// Runs an indexing operation. Torch 2.13 makes plain tensors of lists, and has no strategy for masks and for writing a
// number.
void run_index(DtensorRun& run) {
  const OpCall call = described(run);
  for (const IndexItem& item : read_index(call, shape_of(run, 0).size())) {
    if (item.kind == IndexKind::List)
      return crash_at(run.walk, Code::TensorWithDtensor,
                      fmt::format("{} indexes a DTensor by a list, which is a plain tensor", run.name), run.rule,
                      kNoRule, std::string(run.name));
    if (item.kind == IndexKind::Mask)
      return reject(run, fmt::format("{} of a DTensor by a mask: torch has no sharding strategy for it", run.name));
  }
  if (run.node.op == OpId::GetItem) gather_sliced(run, call);
  const GraphArg* value = find_arg(call, 2, "");
  if (run.node.op == OpId::SetItem && value != nullptr && value->kind != ArgKind::Value)
    return reject(run, "a number is written into a part of a DTensor: torch has no sharding strategy for it");
  run_by_rule(run);
}

// Runs a scan. Torch compares the dim argument with the sharded dims without making it non-negative
// (torch 2.13, _ops/_math_ops.py, scan_strategy). So it does not gather a dim counted from the end, and each rank scans
// its shard.
void run_scan(DtensorRun& run) {
  const OpCall call = described(run);
  const int64_t dim = number_at(call, 1, "dim", 0).traced;
  if (dim >= 0) return run_by_rule(run);
  const size_t scanned = dim_index(dim, declared_shape(run, 0).size());
  run.declared = declared_of(run, 0);
  for (Placement& placement : run.declared) {
    if (placement.kind == PlacementKind::Partial) placement = {};
    run.exact = run.exact && !(is_shard(placement) && static_cast<size_t>(placement.dim) == scanned);
  }
  redistribute_operand(run, 0, run.declared);
  if (run.walk.out.crash == kNoId) compute_result(run);
}

void run_rejected(DtensorRun& run) {
  reject(run, fmt::format("torch has no sharding strategy for {} on DTensors", run.name));
}

void run_where(DtensorRun& run) {
  run.slots.size() == 1 && described(run).args.size() == 1 ? run_rejected(run) : run_pointwise(run);
}

struct StrategyRow {
  void (*run)(DtensorRun&) = nullptr;
  size_t operands = 1;  // minimum count
};

// Operations with their own strategy. For the others it follows from the row of the operation.
constexpr auto kStrategies = by_op<StrategyRow>({
    {OpId::Linear, {run_linear, 2}},
    {OpId::Matmul, {run_matmul, 2}},
    {OpId::Bmm, {run_matmul, 2}},
    {OpId::Mm, {run_matmul, 2}},
    {OpId::Embedding, {run_embedding, 2}},
    {OpId::Where, {run_where}},
    {OpId::Cat, {run_cat}},
    {OpId::LayerNorm, {run_layer_norm}},
    {OpId::RmsNorm, {run_rms_norm}},
    {OpId::Normalize, {run_normalize}},
    {OpId::Unbind, {run_unbind}},
    {OpId::Cumsum, {run_scan}},
    {OpId::Cumprod, {run_scan}},
    {OpId::Logcumsumexp, {run_scan}},
    {OpId::GetItem, {run_index}},
    {OpId::SetItem, {run_index}},
    {OpId::RepeatInterleave, {run_rejected, 2}},  // if an argument is a tensor
    {OpId::Fill, {run_rejected, 2}},
});

void run_strategy(DtensorRun& run) {
  const OpId op = run.node.op;
  const StrategyRow& row = kStrategies[index_of(op)];
  if (row.run != nullptr && run.slots.size() >= row.operands) return row.run(run);
  if (op_row(op).dtensor == DtensorSupport::NoStrategy) return run_rejected(run);
  if (is_view(op)) return run_view(run);
  if (ignores_values(op)) return run_fill(run);
  if (is_elementwise(op)) return run_pointwise(run);
  if (is_partial_reduction(run)) return run_reduction(run);
  run_by_rule(run);
}

DtensorRun begin_run(Walk& walk, const GraphNode& node) {
  DtensorRun run{.walk = walk,
                 .node = node,
                 .name = plain_op(walk.in.graph.strings[node.name]),
                 .values = input_values(walk, node),
                 .slots = {},
                 .local_size_ids = local_size_numbers(walk, node),
                 .result = {},
                 .declared = replicated_placements(walk)};
  for (const ValueId value : run.values) {
    const SlotId slot = walk.memory.slot_of[value];
    run.slots.push_back(slot);
    if (layout_of(walk, slot).is_dtensor && run.rule == kNoRule) run.rule = walk.memory.slots[slot].origin;
  }
  run.exact = true;
  for (size_t i = 0; i < run.slots.size(); ++i)
    run.exact = run.exact && (is_as_declared(run, i) || !layout_of(walk, run.slots[i]).is_dtensor);
  return run;
}

// True if torch raises "got mixed torch.Tensor and DTensor" (2.13, _dispatch.py). It silently makes a plain one-element
// tensor a replicated DTensor.
bool mixes_tensors(const DtensorRun& run) {
  return std::any_of(run.slots.begin(), run.slots.end(), [&](SlotId slot) {
    const ValueLayout& layout = layout_of(run.walk, slot);
    int64_t count = 1;
    for (size_t dim = 0; dim < layout.dims.size(); ++dim) count *= local_size(run.walk.memory.table, layout, dim, 0);
    return !layout.is_dtensor && count != 1;
  });
}

// Returns the global size of a dim as torch's DTensor has it: the sum of local sizes along the axes that shard the dim.
int64_t declared_size(const Walk& walk, const ValueLayout& out, int dim) {
  int64_t sum = 0;
  for (size_t rank = 0; rank < walk.in.ranks; ++rank) {
    bool counts = true;
    for (size_t axis = 0; axis < out.declared.size(); ++axis) {
      const bool is_shard_of_dim = is_shard(out.declared[axis]) && out.declared[axis].dim == dim;
      counts = counts && (is_shard_of_dim || coordinate(walk.memory.table.maps, rank, axis) == 0);
    }
    sum += counts ? local_size(walk.memory.table, out, static_cast<size_t>(dim), rank) : 0;
  }
  return sum;
}

// Returns the layout of a result as a DTensor with the placements that torch chose.
ValueLayout claiming(const DtensorRun& run, const ValueLayout& held) {
  ValueLayout out = held;
  out.wrong = out.local_view = false;
  out.is_dtensor = true;
  out.declared = normalised_placements(run.declared, out.dims.size());
  out.declared_shape = local_shape(run.walk.memory.table, out, 0);
  for (const Placement& placement : out.declared) {
    if (is_shard(placement) && static_cast<size_t>(placement.dim) < out.dims.size())
      out.declared_shape[static_cast<size_t>(placement.dim)] = declared_size(run.walk, out, placement.dim);
  }
  return out;
}

MemoEntry entry_of(DtensorRun& run) {
  Walk& walk = run.walk;
  OpResult& result = run.result;
  // Results of replicated operands are replicated, even without a rule.
  const bool all_replicated = std::all_of(run.slots.begin(), run.slots.end(), [&](SlotId slot) {
    return layout_of(walk, slot).partial == 0 && is_all_replicated(walk.memory.table, layout_of(walk, slot));
  });
  MemoEntry entry;
  for (const ValueLayout& out : result.outs) entry.outs.push_back(intern(walk.memory.table, claiming(run, out)));
  entry.segments = std::move(result.segments);
  entry.segments_are_arguments = result.segments_are_arguments;
  entry.is_write = result.is_write;
  entry.unknown = result.unknown && !all_replicated;
  entry.crash = std::move(result.crash);
  entry.wrong = std::move(result.wrong);
  entry.code = result.code;
  return entry;
}

// Returns the operands with the layouts that the operation saw, under the slots that receive the gradients.
std::vector<TapeSlot> tape_slots(DtensorRun& run) {
  Walk& walk = run.walk;
  std::vector<TapeSlot> ins;
  for (size_t i = 0; i < run.slots.size(); ++i) {
    const Slot& seen = walk.memory.slots[run.slots[i]];
    const SlotId slot_before = walk.memory.slot_of[run.values[i]];
    ins.push_back({slot_before, seen.layout});
    if (seen.cause != kNoId && walk.memory.slots[slot_before].cause == kNoId)
      walk.memory.slots[slot_before].cause = seen.cause;
  }
  return ins;
}

// Returns the key of WalkTables::memo with the dtypes of the operands, whose element sizes determine torch's costs.
std::string key_of(const Walk& walk, const NodeOperands& seen) {
  std::string key = seen.key;
  for (const TapeSlot& in : seen.ins) {
    const Slot& slot = walk.memory.slots[in.slot];
    const StringId traced = walk.in.graph.values[slot.value].dtype;
    key.append(reinterpret_cast<const char*>(&traced), sizeof traced).append(slot.dtype) += '\0';
  }
  return key;
}

// Marks the sizes of the walk's lists. If a run leaves them unchanged, it redistributed and reported nothing, and its
// result can be memoized.
struct RunMark {
  size_t slots, tape, calls, causes, reports;
  bool operator==(const RunMark&) const = default;
};

RunMark mark_of_run(const Walk& walk) {
  return {walk.memory.slots.size(), walk.memory.tape.size(), walk.out.calls.size(), walk.out.causes.size(),
          walk.out.reports};
}

}  // namespace

void run_on_dtensors(Walk& walk, const GraphNode& node, uint32_t index, const NodeOperands& seen) {
  // Not memoized if an argument is a size, or in loss_parallel(): the key has neither local values nor the plan's loss.
  const bool is_memoized = !seen.sizes && !is_in_loss_parallel(walk, node.op);
  const std::string key = is_memoized ? key_of(walk, seen) : std::string();
  if (const auto known = walk.memory.tables.memo.find(key); is_memoized && known != walk.memory.tables.memo.end()) {
    finish_op(walk, node, index, known->second, seen.ins);
    std::vector<SlotId> slots;
    for (const TapeSlot& in : seen.ins) slots.push_back(in.slot);
    return trace_operation(walk, node, index, slots);
  }
  DtensorRun run = begin_run(walk, node);
  const bool reads_dtype_only = node.op == OpId::To || ignores_values(node.op);
  const bool is_loss = is_parallel_loss(run);
  if (is_in_loss_parallel(walk, node.op)) check_log_softmax(run);
  if (!is_loss && mixes_tensors(run) && !(reads_dtype_only && run.values.size() == 1))
    return crash_at(walk, Code::TensorWithDtensor, fmt::format("{} mixes a plain tensor and a DTensor", run.name),
                    run.rule, kNoRule, std::string(run.name));
  if (std::string reason = declared_size_error(run); !reason.empty())
    return crash_at(walk, Code::OperandSizesDiffer,
                    fmt::format("{} (torch assumes that a DTensor's global size is the local size times {})", reason,
                                walk.in.ranks),
                    run.rule, kNoRule, std::string(run.name));
  const RunMark before = mark_of_run(walk);
  is_loss ? run_parallel_loss(run) : run_strategy(run);
  if (walk.out.crash != kNoId) return;
  MemoEntry entry = entry_of(run);
  const bool is_all = is_memoized && mark_of_run(walk) == before &&
                      std::equal(run.slots.begin(), run.slots.end(), seen.ins.begin(), seen.ins.end(),
                                 [](SlotId slot, const TapeSlot& in) { return slot == in.slot; });
  finish_op(walk, node, index, entry, tape_slots(run));
  trace_operation(walk, node, index, run.slots);
  if (is_all) walk.memory.tables.memo.emplace(key, std::move(entry));
}

}  // namespace tpplan
