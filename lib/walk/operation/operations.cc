#include "walk/operation/operations.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <span>

#include "ops/local_counts.h"
#include "ops/op_rules.h"
#include "walk/operation/dtensor_ops.h"
#include "walk/operation/finish_op.h"
#include "walk/state/causes.h"
#include "walk/state/node_args.h"
#include "walk/state/slots.h"
#include "walk/state/trace_step.h"

namespace tpplan {
namespace {

NodeOperands look_at(Walk& walk, const GraphNode& node) {
  NodeOperands seen;
  const auto put = [&seen](uint32_t number) { seen.key.append(reinterpret_cast<const char*>(&number), sizeof number); };
  const size_t args = args_of(walk.in.graph, node).size();
  seen.key.reserve((2 * args + 1) * sizeof(uint32_t));
  seen.ins.reserve(args);
  put(node.signature);
  each_arg(walk.in.graph, node, [&](const GraphArg& arg) {
    if (arg.kind == ArgKind::Value) {
      const ValueLayoutId layout = walk.memory.layout_of[arg.id];
      seen.plain = seen.plain && walk.memory.table.is_plain[layout];
      seen.dtensors = seen.dtensors || walk.memory.table.layouts[layout].is_dtensor;
      put(layout);
      put(walk.in.graph.values[arg.id].shape);
      seen.ins.push_back({walk.memory.slot_of[arg.id], layout});
    } else if (arg.kind == ArgKind::Size) {
      const uint32_t number = evaluate_size(walk, arg.id);
      seen.sizes = true;
      seen.plain = seen.plain && number == walk.memory.tables.traced_numbers[arg.id];
      put(number);
    }
  });
  if (has_counts(node.op)) seen.counts = local_counts(walk);
  if (seen.counts == nullptr) return seen;
  seen.plain = false;
  for (const std::vector<int64_t>* values : {&seen.counts->divided, &seen.counts->undivided}) {
    put(static_cast<uint32_t>(values->size()));
    seen.key.append(reinterpret_cast<const char*>(values->data()), values->size() * sizeof(int64_t));
  }
  put(seen.counts->axis);
  return seen;
}

// Returns the replicated layout of every result: on replicated operands, any operation computes the traced values.
OpResult as_traced(const Walk& walk, const GraphNode& node, const OpResult& by_rule) {
  OpResult result{.outs = {}, .crash = {}, .wrong = {}, .segments = {}};
  if (by_rule.crash.empty() && by_rule.wrong.empty()) result.segments = by_rule.segments;
  result.segments_are_arguments = by_rule.segments_are_arguments;
  for (uint32_t i = node.out_begin; i < node.out_end; ++i)
    result.outs.push_back(
        walk.memory.table
            .layouts[walk.memory.tables.replicated_by_shape[walk.in.graph.values[walk.in.graph.outs[i]].shape]]);
  return result;
}

// Reports a local size that the code passes to a DTensor, whose sizes are global.
bool rejects_counts(Walk& walk, const GraphNode& node, const NodeOperands& seen) {
  if (seen.counts == nullptr) return false;
  for (const GraphArg& arg : args_of(walk.in.graph, node)) {
    if (arg.kind != ArgKind::Int || literal_use(*seen.counts, arg.integer) != LiteralUse::Local) continue;
    crash_at(walk, Code::GlobalSizeInView,
             fmt::format("{} gets {}, the local part of {}, but the sizes of a DTensor are global",
                         walk.in.graph.strings[node.name], arg.integer / seen.counts->ranks, arg.integer),
             kNoRule, kNoRule, std::string(walk.in.graph.strings[node.name]));
    return true;
  }
  return false;
}

OpResult apply_rule(Walk& walk, const GraphNode& node, const NodeOperands& seen) {
  OpCall call = op_call_of(walk, node);
  call.counts = seen.counts;
  OpResult result = run_rule(call);
  const bool fill = op_row(node.op).rule == rule_fill;
  if (seen.plain && !fill) return as_traced(walk, node, result);
  // Zeros and local views with replicated layouts have the traced values, so that a missing rule does not matter.
  const bool all_replicated = std::all_of(seen.ins.begin(), seen.ins.end(), [&](const TapeSlot& in) {
    const ValueLayout& layout = walk.memory.table.layouts[in.layout];
    return layout.partial == 0 && is_all_replicated(walk.memory.table, layout);
  });
  result.unknown = result.unknown && !all_replicated;
  return result;
}

MemoEntry remember(Walk& walk, OpResult result) {
  MemoEntry entry;
  for (ValueLayout& out : result.outs) {
    out.wrong = false;
    out.is_dtensor = false;
    out.declared = {};
    out.declared_shape.clear();
    entry.outs.push_back(intern(walk.memory.table, out));
  }
  entry.segments = std::move(result.segments);
  entry.segments_are_arguments = result.segments_are_arguments;
  entry.is_write = result.is_write;
  entry.unknown = result.unknown;
  entry.crash = std::move(result.crash);
  entry.wrong = std::move(result.wrong);
  entry.code = result.code;
  return entry;
}

}  // namespace

void run_by_rule(Walk& walk, const GraphNode& node, uint32_t index) {
  NodeOperands seen = look_at(walk, node);
  if (seen.dtensors && rejects_counts(walk, node, seen)) return;
  if (seen.dtensors) return run_on_dtensors(walk, node, index, seen);
  auto found = walk.memory.tables.memo.find(seen.key);
  if (found == walk.memory.tables.memo.end())
    found = walk.memory.tables.memo.emplace(std::move(seen.key), remember(walk, apply_rule(walk, node, seen))).first;
  finish_op(walk, node, index, found->second, seen.ins);
  if (walk.out.trace == nullptr) return;
  std::vector<SlotId> ins;
  ins.reserve(seen.ins.size());
  for (const TapeSlot& in : seen.ins) ins.push_back(in.slot);
  trace_operation(walk, node, index, ins);
}

void run_node(Walk& walk, const GraphNode& node, uint32_t index) {
  if (walk.in.runtime.run_op != nullptr) return walk.in.runtime.run_op(walk, node, index);
  ReplacedSlots shown;
  if (walk.in.runtime.show_operands != nullptr) walk.in.runtime.show_operands(walk, node, shown);
  const size_t calls = walk.out.calls.size();
  if (walk.out.crash == kNoId) run_by_rule(walk, node, index);
  for (CollectiveCall& call : std::span(walk.out.calls).subspan(calls)) {
    if (call.hidden) call.operation = walk.in.graph.strings[node.name];
  }
  for (auto before = shown.rbegin(); before != shown.rend(); ++before) {
    // A value that the operation wrote in place has a new slot.
    set_slot(walk, before->first, before->second);
  }
}

}  // namespace tpplan
