#include "walk/backward/redistribute_grad.h"

#include <spdlog/fmt/fmt.h>

#include "ops/op_rules.h"
#include "walk/report/append_call.h"
#include "walk/state/causes.h"
#include "walk/state/slots.h"
#include "walk/state/tape.h"

namespace tpplan {

void append_grad_call(Backward& b, const TapeEntry& entry, const Collective& call, const ValueLayout& layout,
                      SlotId slot, bool hidden) {
  std::vector<int64_t> shape = local_shape(b.walk.memory.table, layout, 0);
  pad_shards(shape, call, static_cast<int64_t>(b.walk.memory.table.maps.axes[call.axis]));
  append_call(b.walk, true, call.kind, call.axis, entry.module, std::move(shape),
              entry.dtype.empty() ? dtype_of(b.walk, slot) : entry.dtype, hidden);
  if (hidden && entry.node != kNoId)
    b.walk.out.calls.back().operation = b.walk.in.graph.strings[b.walk.in.graph.nodes[entry.node].name];
}

Grad reduce_partial(Backward& b, const TapeEntry& entry, Grad grad, size_t axis) {
  const AxisMask bit = axis_bit(axis);
  if (grad.state == kWrongGrad) return grad;
  AxisMask partial = 0, complete = 0;
  each_state(grad, [&](GradState& state) {
    if (state.kind != GradKind::Known) return;
    partial |= state.partial & bit;
    complete |= ~state.partial & bit;
    state.partial &= ~bit;
  });
  if (partial != 0 && complete != 0)
    return wrong_grad(b, entry, Code::ReplicatedGradientReduced,
                      "the gradient is full in one part and partial in another, but all of it is summed", grad.rule);
  if (complete != 0)
    return wrong_grad(b, entry, Code::ReplicatedGradientReduced,
                      fmt::format("the gradient is full on every rank, but is summed over {} ranks",
                                  b.walk.memory.table.maps.axes[axis]),
                      grad.rule);
  merge_equal_segments(grad);
  return grad;
}

namespace {

// Returns the local layout during a redistribution. It is sharded if the gradient is declared so, even if the value is
// not. It has the full size if the gradient is declared replicated or Partial, even if the value is sharded.
ValueLayout declared_shards(Walk& walk, ValueLayoutId layout, const DeclaredPlacements& declared) {
  DimLayoutTable& maps = walk.memory.table.maps;
  ValueLayout local = walk.memory.table.layouts[layout];
  for (size_t axis = 0; axis < declared.size(); ++axis) {
    if (!is_shard(declared[axis])) {
      for (DimLayoutId& map : local.dims) {
        if (maps.maps[map].axes == axis_bit(axis)) map = replicated_dim(maps, maps.maps[map].size);
      }
      continue;
    }
    const auto dim = static_cast<size_t>(declared[axis].dim);
    if (dim < local.dims.size() && (maps.maps[local.dims[dim]].axes & axis_bit(axis)) == 0)
      local.dims[dim] = sharded_dim(maps, local.dims[dim], axis);
  }
  return local;
}

bool is_partial_along(const Grad& grad, size_t axis) {
  AxisMask partial = grad.state.partial;
  for (const GradSegment& s : grad.segments) partial |= s.state.partial;
  return (partial & axis_bit(axis)) != 0;
}

}  // namespace

Grad redistribute_to_declared(Backward& b, const TapeEntry& entry, Grad grad, const DeclaredPlacements& to, SlotId slot,
                              bool hidden) {
  const DeclaredPlacements from = grad.declared;
  grad.declared = to;
  if (from == to) return grad;
  const ValueLayoutId layout = grad.layout;
  DeclaredPlacements current = from;
  const auto steps = redistribute(from, to);
  for (const Collective& step : steps.value_or(std::vector<Collective>{})) {
    if (step.kind != CollectiveKind::LocalSlice)
      append_grad_call(b, entry, step, declared_shards(b.walk, layout, current), slot, hidden);
    if (current[step.axis].kind == PlacementKind::Partial)
      grad = reduce_partial(b, entry, std::move(grad), step.axis);
    else if (grad.state != kWrongGrad && is_partial_along(grad, step.axis))
      grad = wrong_grad(b, entry, Code::GradientNotReduced,
                        "the gradient is partial, but is sharded or gathered as if it were full", grad.rule);
    grad.layout = layout;
    current[step.axis] = placement_after(step, to);
  }
  grad.declared = to;
  return grad;
}

namespace {

// True if a partial gradient is reduce-scattered to the shards of the result, not all-reduced. For elementwise
// operations that is cheaper; for norms the strategy follows the operand (_ops/_math_ops.py).
bool has_local_derivative(OpId op) { return op_row(op).rule == rule_norm || is_elementwise(op); }

}  // namespace

void reduce_incoming_grad(Backward& b, const TapeEntry& entry, const TapeSlot& result, ValueLayoutId held) {
  Grad& grad = b.grads[result.slot];
  const ValueLayout& y = b.walk.memory.table.layouts[result.layout];
  if (!grad.has_declared || !y.is_dtensor) return;
  AxisMask sharded_or_partial = y.partial;
  for (uint32_t in = entry.in_begin; in < entry.in_end; ++in)
    sharded_or_partial |=
        sharding_axes(b.walk.memory.table, b.walk.memory.table.layouts[b.walk.memory.tape_slots[in].layout]);
  const bool stays_local = has_local_derivative(op_of(b.walk, entry));
  DeclaredPlacements reduced = grad.declared;
  for (size_t axis = 0; axis < reduced.size(); ++axis) {
    if (reduced[axis].kind != PlacementKind::Partial || (sharded_or_partial & axis_bit(axis)) == 0) continue;
    reduced[axis] = stays_local && is_shard(y.declared[axis]) ? y.declared[axis] : Placement{};
  }
  if (reduced == grad.declared) return;
  grad.layout = held;
  grad = redistribute_to_declared(b, entry, std::move(grad), reduced, result.slot, true);
  grad.has_declared = true;
}

}  // namespace tpplan
