#include "walk/state/trace_step.h"

#include "walk/state/slots.h"

namespace tpplan {
namespace {

uint32_t put_slots(StepTrace& trace, std::span<const SlotId> slots) {
  trace.slots.insert(trace.slots.end(), slots.begin(), slots.end());
  return static_cast<uint32_t>(trace.slots.size());
}

}  // namespace

void trace_operation(Walk& walk, const GraphNode& node, uint32_t index, std::span<const SlotId> ins) {
  if (walk.out.trace == nullptr || walk.out.crash != kNoId) return;
  StepTrace& trace = *walk.out.trace;
  TracedOp op{.kind = TracedKind::Op, .node = index, .module = current_module(walk)};
  op.in_begin = static_cast<uint32_t>(trace.slots.size());
  op.in_end = op.out_begin = put_slots(trace, ins);
  for (uint32_t i = node.out_begin; i < node.out_end; ++i)
    trace.slots.push_back(walk.memory.slot_of[walk.in.graph.outs[i]]);
  op.out_end = static_cast<uint32_t>(trace.slots.size());
  trace.ops.push_back(op);
}

void trace_boundary(Walk& walk, const GraphNode& node, uint32_t index) {
  if (walk.out.trace == nullptr || walk.out.crash != kNoId) return;
  StepTrace& trace = *walk.out.trace;
  TracedOp op{.kind = node.kind == NodeKind::Enter ? TracedKind::Enter : TracedKind::Exit,
              .node = index,
              .module = walk.in.model_tables.module_of_string[node.name]};
  op.in_begin = static_cast<uint32_t>(trace.slots.size());
  for (uint32_t i = node.crossing_begin; i < node.crossing_end && node.kind == NodeKind::Enter; ++i) {
    // If a value is passed twice, `from` of the second crossing is the inner value of the first, which has no slot yet.
    const SlotId slot = walk.memory.slot_of[walk.in.graph.crossings[i].from];
    if (slot != kNoId) trace.slots.push_back(slot);
  }
  op.in_end = op.out_begin = op.out_end = static_cast<uint32_t>(trace.slots.size());
  trace.ops.push_back(op);
}

void finish_trace(Walk& walk) {
  if (walk.out.trace == nullptr) return;
  StepTrace& trace = *walk.out.trace;
  std::vector<uint32_t> shape_of_layout(walk.memory.table.layouts.size(), kNoId);
  const auto shape_at = [&](ValueLayoutId id) {
    if (shape_of_layout[id] != kNoId) return shape_of_layout[id];
    const ValueLayout& layout = walk.memory.table.layouts[id];
    GraphShape shape{static_cast<uint32_t>(trace.sizes.size()), static_cast<uint32_t>(layout.dims.size())};
    for (size_t dim = 0; dim < layout.dims.size(); ++dim)
      trace.sizes.push_back(local_size(walk.memory.table, layout, dim, 0));
    trace.shapes.push_back(shape);
    return shape_of_layout[id] = static_cast<uint32_t>(trace.shapes.size() - 1);
  };
  trace.values.reserve(walk.memory.slots.size());
  for (SlotId id = 0; id < walk.memory.slots.size(); ++id) {
    const Slot& slot = walk.memory.slots[id];
    trace.values.push_back({.value = slot.value,
                            .dtype = dtype_of(walk, id),
                            .shape = shape_at(slot.layout),
                            .from = slot.from,
                            .param = slot.param,
                            .is_leaf = slot.is_leaf,
                            .requires_grad = slot.requires_grad,
                            .memory = slot.memory});
  }
  for (const ValueId output : walk.in.graph.outputs) trace.outputs.push_back(walk.memory.slot_of[output]);
  trace.is_there = true;
}

}  // namespace tpplan
