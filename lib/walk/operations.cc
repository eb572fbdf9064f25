#include "walk/operations.h"

#include <algorithm>

#include "walk/dtensor_ops.h"
#include "walk/finish_op.h"
#include "walk/node_args.h"
#include "walk/slots.h"
#include "walk/trace_step.h"

namespace tpplan {
namespace {

NodeOperands look_at(Walk& walk, const GraphNode& node) {
  NodeOperands seen;
  const auto put = [&seen](uint32_t number) { seen.key.append(reinterpret_cast<const char*>(&number), sizeof number); };
  const size_t args = args_of(walk.graph, node).size();
  seen.key.reserve((2 * args + 1) * sizeof(uint32_t));
  seen.ins.reserve(args);
  put(node.signature);
  each_arg(walk.graph, node, [&](const GraphArg& arg) {
    if (arg.kind == ArgKind::Value) {
      const SpreadId layout = walk.layout_of[arg.id];
      seen.plain = seen.plain && walk.table.is_plain[layout];
      seen.dtensors = seen.dtensors || walk.table.layouts[layout].is_dtensor;
      put(layout);
      put(walk.graph.values[arg.id].shape);
      seen.ins.push_back({walk.slot_of[arg.id], layout});
    } else if (arg.kind == ArgKind::Size) {
      const uint32_t number = size_number(walk, arg.id);
      seen.sizes = true;
      seen.plain = seen.plain && number == walk.tables.traced_numbers[arg.id];
      put(number);
    }
  });
  return seen;
}

// What nothing was cut of is as recorded, whatever the op is.
OpResult as_recorded(const Walk& walk, const GraphNode& node, const OpResult& by_rule) {
  OpResult result{.outs = {}, .crash = {}, .wrong = {}, .segments = {}};
  if (by_rule.crash.empty() && by_rule.wrong.empty()) result.segments = by_rule.segments;
  result.segments_are_arguments = by_rule.segments_are_arguments;
  for (uint32_t i = node.out_begin; i < node.out_end; ++i)
    result.outs.push_back(walk.table.layouts[walk.tables.whole_of_shape[walk.graph.values[walk.graph.outs[i]].shape]]);
  return result;
}

OpResult ask_rule(Walk& walk, const GraphNode& node, const NodeOperands& seen) {
  OpCall call = call_of(walk, node);
  OpResult result = run_rule(call);
  const bool fill = find_rule(call.name) == rule_fill;
  if (seen.plain && !fill) return as_recorded(walk, node, result);
  // Zeros and views of whole values differ in nothing that an op could see.
  const bool whole = std::all_of(seen.ins.begin(), seen.ins.end(), [&](const TapeSlot& in) {
    const Spread& layout = walk.table.layouts[in.layout];
    return layout.partial == 0 && is_all_whole(walk.table, layout);
  });
  result.unknown = result.unknown && !whole;
  return result;
}

MemoEntry remember(Walk& walk, OpResult result) {
  MemoEntry entry;
  for (Spread& out : result.outs) {
    out.wrong = false;
    out.is_dtensor = false;
    out.claim = {};
    out.claimed_shape.clear();
    entry.outs.push_back(intern(walk.table, out));
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
  if (seen.dtensors) return run_on_dtensors(walk, node, index, seen);
  auto found = walk.tables.memo.find(seen.key);
  if (found == walk.tables.memo.end())
    found = walk.tables.memo.emplace(std::move(seen.key), remember(walk, ask_rule(walk, node, seen))).first;
  finish_op(walk, node, index, found->second, seen.ins);
  if (walk.trace == nullptr) return;
  std::vector<SlotId> ins;
  ins.reserve(seen.ins.size());
  for (const TapeSlot& in : seen.ins) ins.push_back(in.slot);
  trace_operation(walk, node, index, ins);
}

void run_node(Walk& walk, const GraphNode& node, uint32_t index) {
  if (walk.runtime.run_op != nullptr) return walk.runtime.run_op(walk, node, index);
  Shown shown;
  if (walk.runtime.show_operands != nullptr) walk.runtime.show_operands(walk, node, shown);
  if (walk.crash == kNoId) run_by_rule(walk, node, index);
  for (auto before = shown.rbegin(); before != shown.rend(); ++before) {
    // What the operation wrote in place is another value.
    set_slot(walk, before->first, before->second);
  }
}

}  // namespace tpplan
