#include "walk/trace_step.h"

#include "walk/slots.h"

namespace tpplan {
namespace {

uint32_t put_slots(StepTrace& trace, std::span<const SlotId> slots) {
  trace.slots.insert(trace.slots.end(), slots.begin(), slots.end());
  return static_cast<uint32_t>(trace.slots.size());
}

}  // namespace

void trace_operation(Walk& walk, const GraphNode& node, uint32_t index, std::span<const SlotId> ins) {
  if (walk.trace == nullptr || walk.crash != kNoId) return;
  StepTrace& trace = *walk.trace;
  TracedOp op{.kind = TracedKind::Op, .node = index, .module = module_at(walk)};
  op.in_begin = static_cast<uint32_t>(trace.slots.size());
  op.in_end = op.out_begin = put_slots(trace, ins);
  for (uint32_t i = node.out_begin; i < node.out_end; ++i) trace.slots.push_back(walk.slot_of[walk.graph.outs[i]]);
  op.out_end = static_cast<uint32_t>(trace.slots.size());
  trace.ops.push_back(op);
}

void trace_boundary(Walk& walk, const GraphNode& node, uint32_t index) {
  if (walk.trace == nullptr || walk.crash != kNoId) return;
  StepTrace& trace = *walk.trace;
  TracedOp op{.kind = node.kind == NodeKind::Enter ? TracedKind::Enter : TracedKind::Exit,
              .node = index,
              .module = walk.model_tables.module_of_string[node.name]};
  op.in_begin = static_cast<uint32_t>(trace.slots.size());
  for (uint32_t i = node.crossing_begin; i < node.crossing_end && node.kind == NodeKind::Enter; ++i) {
    // A value that enters twice is the inner one of its first place, which nobody has yet.
    const SlotId slot = walk.slot_of[walk.graph.crossings[i].from];
    if (slot != kNoId) trace.slots.push_back(slot);
  }
  op.in_end = op.out_begin = op.out_end = static_cast<uint32_t>(trace.slots.size());
  trace.ops.push_back(op);
}

void finish_trace(Walk& walk) {
  if (walk.trace == nullptr) return;
  StepTrace& trace = *walk.trace;
  std::vector<uint32_t> shape_of_layout(walk.table.layouts.size(), kNoId);
  const auto shape_at = [&](SpreadId id) {
    if (shape_of_layout[id] != kNoId) return shape_of_layout[id];
    const Spread& layout = walk.table.layouts[id];
    GraphShape shape{static_cast<uint32_t>(trace.sizes.size()), static_cast<uint32_t>(layout.dims.size())};
    for (size_t dim = 0; dim < layout.dims.size(); ++dim) trace.sizes.push_back(local_size(walk.table, layout, dim, 0));
    trace.shapes.push_back(shape);
    return shape_of_layout[id] = static_cast<uint32_t>(trace.shapes.size() - 1);
  };
  trace.values.reserve(walk.slots.size());
  for (SlotId id = 0; id < walk.slots.size(); ++id) {
    const Slot& slot = walk.slots[id];
    trace.values.push_back({.value = slot.value,
                            .dtype = dtype_of(walk, id),
                            .shape = shape_at(slot.layout),
                            .from = slot.from,
                            .param = slot.param,
                            .is_leaf = slot.is_leaf,
                            .requires_grad = slot.requires_grad,
                            .memory = slot.memory});
  }
  for (const ValueId output : walk.graph.outputs) trace.outputs.push_back(walk.slot_of[output]);
  trace.is_there = true;
}

}  // namespace tpplan
