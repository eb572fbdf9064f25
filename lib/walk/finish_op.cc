#include "walk/finish_op.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "sharding/tensor_size.h"
#include "walk/causes.h"
#include "walk/example.h"
#include "walk/list_operations.h"
#include "walk/node_args.h"
#include "walk/op_types.h"
#include "walk/slots.h"
#include "walk/tape.h"

namespace tpplan {
namespace {

// An operation that has run.
struct DoneOp {
  const GraphNode& node;
  std::string_view name;
  RuleId rule = kNoRule, partner = kNoRule;  // that its operands' layouts come from
  const MemoEntry& entry;
  std::span<const TapeSlot> ins;
};

// What ranks hold of the operands: "[2, 16, 128] (dim 2: 0..63 | 64..127) and `lm_head.weight` [64, 128] (whole)".
std::string operand_texts(const Walk& walk, const GraphNode& node) {
  std::vector<std::string> texts;
  for (const ValueId value : values_in(walk, node)) {
    const Spread& layout = walk.table.layouts[walk.layout_of[value]];
    const auto param = std::find(walk.value_of_param.begin(), walk.value_of_param.end(), value);
    const std::string name =
        param == walk.value_of_param.end()
            ? std::string()
            : fmt::format(
                  "`{}` ",
                  path_of(walk.model, walk.model.params[static_cast<size_t>(param - walk.value_of_param.begin())]));
    texts.push_back(fmt::format("{}{} ({}{})", name, shape_text(shape_of(walk.graph, value)),
                                layout_text(walk.table, layout), layout.is_dtensor ? ", a DTensor" : ""));
  }
  return fmt::format("operands: {}", fmt::join(texts, " and "));
}

Example example_of(const Walk& walk, const GraphNode& node, bool crashes) {
  return walk.examples == nullptr ? Example{} : operation_example(walk, node, crashes);
}

// The rules that the operands' layouts come from: the first one, and another.
std::pair<RuleId, RuleId> origins(const Walk& walk, const GraphNode& node) {
  std::pair<RuleId, RuleId> found{kNoRule, kNoRule};
  each_arg(walk.graph, node, [&](const GraphArg& arg) {
    if (arg.kind != ArgKind::Value) return;
    const SlotId slot = walk.slot_of[arg.id];
    const RuleId rule = walk.slots[slot].origin;
    if (rule == kNoRule || rule == found.first) return;
    const Spread& layout = layout_of(walk, slot);
    if (layout.partial == 0 && !layout.is_dtensor && is_all_whole(walk.table, layout)) return;
    if (found.first == kNoRule)
      found.first = rule;
    else if (found.second == kNoRule)
      found.second = rule;
  });
  return found;
}

// Sizes and types are all that these take over.
bool keeps_no_values(std::string_view name) { return name.ends_with("_like") || name.starts_with("new_"); }

// A reason that does not name the operation gets its name.
std::string said_of_op(const DoneOp& op, const std::string& reason) {
  return reason.find(op.name) != std::string::npos ? reason : fmt::format("{}: {}", op.name, reason);
}

// Torch, "a view ... is being modified inplace": what to_local() returns must not be written to while gradients are
// recorded. kNoId where nothing is.
SlotId written_view(const Walk& walk, const DoneOp& op, bool any_gradient) {
  if (!op.entry.is_write || op.ins.empty() || !any_gradient || !records_gradients(walk)) return kNoId;
  const TapeSlot& target = op.ins[0];
  const bool is_view = walk.table.layouts[target.layout].local_view && walk.slots[target.slot].requires_grad;
  return is_view ? target.slot : kNoId;
}

// Why the results are wrong: as an operand is, or by what the operation makes of them. kNoId where they are right.
uint32_t cause_of(Walk& walk, const DoneOp& op) {
  if (!keeps_no_values(op.name)) {
    for (const TapeSlot& in : op.ins) {
      if (walk.table.layouts[in.layout].wrong && walk.slots[in.slot].cause != kNoId) return walk.slots[in.slot].cause;
    }
  }
  const MemoEntry& entry = op.entry;
  if (entry.wrong.empty() && !entry.unknown) return kNoId;
  return add_cause(
      walk,
      {.code = entry.unknown ? Code::TP5114 : entry.code,
       .reason =
           entry.unknown
               ? fmt::format("{} meets a value that is not whole on every rank, and no rule says what it makes of it",
                             op.name)
               : said_of_op(op, entry.wrong),
       .op = std::string(op.name),
       .module = module_at(walk),
       .rule = op.rule,
       .partner = op.partner,
       .layouts = operand_texts(walk, op.node),
       .example = example_of(walk, op.node, false),
       .unknown = entry.unknown});
}

// The results' slots; with `records`, those that want gradients have them.
std::vector<TapeSlot> bind_results(Walk& walk, const DoneOp& op, const OpTypes& types, uint32_t cause, bool records) {
  std::vector<TapeSlot> outs;
  outs.reserve(op.node.out_end - op.node.out_begin);
  for (uint32_t i = op.node.out_begin; i < op.node.out_end; ++i) {
    const ValueId value = walk.graph.outs[i];
    Slot slot{.layout = op.entry.outs[i - op.node.out_begin],
              .value = value,
              .requires_grad = records && walk.graph.values[value].requires_grad,
              .origin = op.rule,
              .cause = cause};
    if (cause != kNoId) {
      Spread layout = walk.table.layouts[slot.layout];
      layout.wrong = true;
      slot.layout = intern(walk.table, layout);
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
                  .name = walk.graph.strings[node.name],
                  .rule = rule,
                  .partner = partner,
                  .entry = entry,
                  .ins = ins};
  if (!entry.crash.empty()) {
    crash_at(walk, entry.code, said_of_op(op, entry.crash), rule, partner, std::string(op.name));
    if (walk.crash != kNoId) {
      walk.causes[walk.crash].layouts = operand_texts(walk, node);
      walk.causes[walk.crash].example = example_of(walk, node, true);
    }
    return;
  }
  const OpTypes types = op_types(walk, node, entry.is_write, ins);
  if (!types.crash.empty())
    return crash_at(walk, Code::TP5123, said_of_op(op, types.crash), types.rule, kNoRule, std::string(op.name));
  const bool any_gradient =
      std::any_of(ins.begin(), ins.end(), [&](const TapeSlot& in) { return walk.slots[in.slot].requires_grad; });
  if (const SlotId view = written_view(walk, op, any_gradient); view != kNoId)
    return crash_at(walk, Code::TP5106,
                    fmt::format("{} writes into what to_local() returned, a view that must not be written to while "
                                "gradients are recorded",
                                op.name),
                    walk.slots[view].origin, kNoRule, std::string(op.name));
  const uint32_t cause = cause_of(walk, op);
  // Nothing certain can be said of what follows.
  if (cause != kNoId && entry.unknown && walk.causes[cause].unknown) {
    walk.crash = cause;
    return;
  }
  const std::vector<TapeSlot> outs = bind_results(walk, op, types, cause, any_gradient && records_gradients(walk));
  list_operation(walk, node);
  const bool on_tape =
      std::any_of(outs.begin(), outs.end(), [&](const TapeSlot& out) { return walk.slots[out.slot].requires_grad; });
  if (!on_tape) return;
  TapeEntry tape{.kind = TapeKind::Op, .node = index, .module = module_at(walk), .rule = rule};
  tape.segments_are_arguments = entry.segments_are_arguments;
  tape.segments_begin = static_cast<uint32_t>(walk.segments.size());
  walk.segments.insert(walk.segments.end(), entry.segments.begin(), entry.segments.end());
  tape.segments_end = static_cast<uint32_t>(walk.segments.size());
  add_to_tape(walk, std::move(tape), ins, outs);
}

}  // namespace tpplan
