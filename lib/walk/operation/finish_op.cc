#include "walk/operation/finish_op.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "ops/op_row.h"
#include "sharding/tensor_size.h"
#include "walk/operation/op_types.h"
#include "walk/report/example.h"
#include "walk/report/list_operations.h"
#include "walk/state/causes.h"
#include "walk/state/node_args.h"
#include "walk/state/slots.h"
#include "walk/state/tape.h"

namespace tpplan {
namespace {

// An operation after its rule.
struct DoneOp {
  const GraphNode& node;
  uint32_t index = 0;
  std::string_view name;
  RuleId rule = kNoRule, partner = kNoRule;  // that determine the layouts of the operands
  const MemoEntry& entry;
  std::span<const TapeSlot> ins;
};

// Returns the layouts of the operands: "[2, 16, 128] (dim 2: 0..63 | 64..127) and `lm_head.weight` [64, 128] (whole)".
std::string operand_texts(const Walk& walk, const GraphNode& node) {
  std::vector<std::string> texts;
  for (const ValueId value : input_values(walk, node)) {
    const ValueLayout& layout = walk.memory.table.layouts[walk.memory.layout_of[value]];
    const auto param = std::find(walk.memory.value_of_param.begin(), walk.memory.value_of_param.end(), value);
    const std::string name =
        param == walk.memory.value_of_param.end()
            ? std::string()
            : fmt::format(
                  "`{}` ",
                  path_of(walk.in.model,
                          walk.in.model.params[static_cast<size_t>(param - walk.memory.value_of_param.begin())]));
    texts.push_back(fmt::format("{}{} ({}{})", name, shape_text(shape_of(walk.in.graph, value)),
                                layout_text(walk.memory.table, layout), layout.is_dtensor ? ", DTensor" : ""));
  }
  return fmt::format("operands: {}", fmt::join(texts, " and "));
}

Example example_of(const Walk& walk, const GraphNode& node, bool crashes) {
  return walk.out.examples == nullptr ? Example{} : operation_example(walk, node, crashes);
}

// Returns the rules that determine the layouts of the operands: the first one, and the first other one.
std::pair<RuleId, RuleId> origins(const Walk& walk, const GraphNode& node) {
  std::pair<RuleId, RuleId> found{kNoRule, kNoRule};
  each_arg(walk.in.graph, node, [&](const GraphArg& arg) {
    if (arg.kind != ArgKind::Value) return;
    const SlotId slot = walk.memory.slot_of[arg.id];
    const RuleId rule = walk.memory.slots[slot].origin;
    if (rule == kNoRule || rule == found.first) return;
    const ValueLayout& layout = layout_of(walk, slot);
    if (layout.partial == 0 && !layout.is_dtensor && is_all_replicated(walk.memory.table, layout)) return;
    if (found.first == kNoRule)
      found.first = rule;
    else if (found.second == kNoRule)
      found.second = rule;
  });
  return found;
}

// Returns the reason, with the name of the operation in front if the reason does not contain it.
std::string text_about_op(const DoneOp& op, const std::string& reason) {
  return reason.find(op.name) != std::string::npos ? reason : fmt::format("{}: {}", op.name, reason);
}

// Returns the slot of a to_local() result that the operation writes while gradients are enabled; kNoId if there is
// none. Torch raises an error: "a view ... is being modified inplace". tpplan.torch returns values that are no views.
SlotId written_view(const Walk& walk, const DoneOp& op, bool any_gradient) {
  if (walk.in.runtime.writes_views || !op.entry.is_write || op.ins.empty() || !any_gradient || !is_grad_enabled(walk))
    return kNoId;
  const TapeSlot& target = op.ins[0];
  const bool is_view =
      walk.memory.table.layouts[target.layout].local_view && walk.memory.slots[target.slot].requires_grad;
  return is_view ? target.slot : kNoId;
}

// Returns why the results are wrong: the cause of a wrong operand, or the operation. kNoId if they are right.
uint32_t cause_of(Walk& walk, const DoneOp& op) {
  if (sharded_result_of(walk, op.index) != ShardedResult::ByRule) return kNoId;
  if (!ignores_values(op.node.op)) {
    for (const TapeSlot& in : op.ins) {
      if (walk.memory.table.layouts[in.layout].wrong && walk.memory.slots[in.slot].cause != kNoId)
        return walk.memory.slots[in.slot].cause;
    }
  }
  const MemoEntry& entry = op.entry;
  if (entry.wrong.empty() && !entry.unknown) return kNoId;
  return add_cause(
      walk,
      {.code = entry.unknown ? Code::OperationWithoutRule : entry.code,
       .reason =
           entry.unknown
               ? fmt::format(
                     "{} gets a value that is not replicated, but has no sharding rule: its results are not checked",
                     op.name)
               : text_about_op(op, entry.wrong),
       .op = std::string(op.name),
       .module = current_module(walk),
       .rule = op.rule,
       .partner = op.partner,
       .layouts = operand_texts(walk, op.node),
       .help = entry.unknown
                   ? fmt::format("add a row for `{}` to lib/ops, or a rule string under \"rules\" of the model's graph",
                                 op.name)
                   : std::string(),
       .example = example_of(walk, op.node, false),
       .unknown = entry.unknown});
}

// Makes the slots of the results. `records`: autograd is enabled and an operand needs a gradient.
std::vector<TapeSlot> bind_results(Walk& walk, const DoneOp& op, const OpTypes& types, uint32_t cause, bool records) {
  std::vector<TapeSlot> outs;
  outs.reserve(op.node.out_end - op.node.out_begin);
  for (uint32_t i = op.node.out_begin; i < op.node.out_end; ++i) {
    const ValueId value = walk.in.graph.outs[i];
    const ValueLayoutId by_rule = op.entry.outs[i - op.node.out_begin];
    Slot slot{.layout = sharded_result_of(walk, op.index) == ShardedResult::Range
                            ? sharded_layout(walk, shape_of(walk.in.graph, value), 0)
                            : by_rule,
              .value = value,
              .requires_grad = records && walk.in.graph.values[value].requires_grad,
              .origin = op.rule,
              .cause = cause};
    if (cause != kNoId) {
      ValueLayout layout = walk.memory.table.layouts[slot.layout];
      layout.wrong = true;
      slot.layout = intern(walk.memory.table, layout);
    }
    const SlotId id = new_slot(walk, slot);
    if (!types.outs.empty()) set_dtype(walk, id, types.outs[i - op.node.out_begin], types.rule);
    set_slot(walk, value, id);
    outs.push_back({id, slot.layout});
  }
  return outs;
}

}  // namespace

void finish_op(Walk& walk, const GraphNode& node, uint32_t index, const MemoEntry& entry,
               std::span<const TapeSlot> ins) {
  const auto [rule, partner] = origins(walk, node);
  const DoneOp op{.node = node,
                  .index = index,
                  .name = walk.in.graph.strings[node.name],
                  .rule = rule,
                  .partner = partner,
                  .entry = entry,
                  .ins = ins};
  if (!entry.crash.empty()) {
    crash_at(walk, entry.code, text_about_op(op, entry.crash), rule, partner, std::string(op.name));
    if (walk.out.crash != kNoId) {
      walk.out.causes[walk.out.crash].layouts = operand_texts(walk, node);
      walk.out.causes[walk.out.crash].example = example_of(walk, node, true);
    }
    return;
  }
  const OpTypes types = op_types(walk, node, entry.is_write, ins);
  if (!types.crash.empty())
    return crash_at(walk, Code::OperandDtypesDiffer, text_about_op(op, types.crash), types.rule, kNoRule,
                    std::string(op.name));
  const bool any_gradient =
      std::any_of(ins.begin(), ins.end(), [&](const TapeSlot& in) { return walk.memory.slots[in.slot].requires_grad; });
  if (const SlotId view = written_view(walk, op, any_gradient); view != kNoId)
    return crash_at(
        walk, Code::InPlaceOnView,
        fmt::format(
            "{} modifies the result of to_local(), a view that must not be modified in place while autograd records",
            op.name),
        walk.memory.slots[view].origin, kNoRule, std::string(op.name));
  const uint32_t cause = cause_of(walk, op);
  // Nothing after an operation without a rule is certain.
  if (cause != kNoId && entry.unknown && walk.out.causes[cause].unknown) {
    walk.out.crash = cause;
    return;
  }
  const std::vector<TapeSlot> outs = bind_results(walk, op, types, cause, any_gradient && is_grad_enabled(walk));
  list_operation(walk, node);
  const bool on_tape = std::any_of(outs.begin(), outs.end(),
                                   [&](const TapeSlot& out) { return walk.memory.slots[out.slot].requires_grad; });
  if (!on_tape) return;
  TapeEntry tape{.kind = TapeKind::Op, .node = index, .module = current_module(walk), .rule = rule};
  tape.segments_are_arguments = entry.segments_are_arguments;
  tape.segments_begin = static_cast<uint32_t>(walk.memory.segments.size());
  walk.memory.segments.insert(walk.memory.segments.end(), entry.segments.begin(), entry.segments.end());
  tape.segments_end = static_cast<uint32_t>(walk.memory.segments.size());
  add_to_tape(walk, std::move(tape), ins, outs);
}

}  // namespace tpplan
