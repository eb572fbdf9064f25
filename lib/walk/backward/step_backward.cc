#include "walk/backward/step_backward.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "walk/backward/accumulate_grad.h"
#include "walk/backward/redistribute_grad.h"
#include "walk/report/append_call.h"
#include "walk/run/data_axes.h"
#include "walk/run/dispatch.h"
#include "walk/state/causes.h"
#include "walk/state/slots.h"

namespace tpplan {
namespace {

// Shards the gradient again, without communication. This assumes that it is complete.
Grad gather_grad(Backward& b, const TapeEntry& entry, Grad grad) {
  GradState state{};
  if (grad.state == kWrongGrad || (has_uniform_state(grad, state) && !is_partial(state))) return grad;
  return wrong_grad(b, entry, Code::GradientNotReduced, "the gradient is partial, but is sharded as if it were full",
                    grad.rule);
}

// mla_kv_a_proj: all-reduces the gradient of the last elements; the others are unchanged.
Grad sum_tail_grad(Backward& b, const TapeEntry& entry, Grad grad, SlotId in) {
  const Walk& walk = b.walk;
  const auto shape = shape_of(walk, in);
  const int64_t tail = walk.in.model_tables.rope_dim;
  if (shape.empty() || tail <= 0 || tail > shape.back()) return grad;
  const auto last = static_cast<uint32_t>(shape.size() - 1);
  std::vector<int64_t> local = local_shape(walk.memory.table, walk.memory.table.layouts[grad.layout], 0);
  local.back() = tail;
  append_call(b.walk, true, CollectiveKind::AllReduce, 0, entry.module, std::move(local), dtype_of(walk, in));
  if (grad.state == kWrongGrad || (!grad.segments.empty() && grad.dim != last)) return grad;
  if (grad.segments.empty()) grad.segments = {{0, shape.back(), grad.state}};
  const int64_t at = shape.back() - tail;
  bool clash = false, complete = false;
  std::vector<GradSegment> summed;
  for (const GradSegment& s : grad.segments) {
    if (s.begin < at) add_segment(summed, {s.begin, std::min(s.end, at), s.state}, clash);
    if (s.end > at) {
      complete = complete || s.state == kComplete;
      add_segment(summed, {std::max(s.begin, at), s.end, kComplete}, clash);
    }
  }
  if (complete)
    return wrong_grad(
        b, entry, Code::ReplicatedGradientReduced,
        fmt::format("the gradient of the last {} elements is full on every rank, but is summed over {} ranks", tail,
                    walk.in.ranks),
        grad.rule);
  grad.dim = last;
  grad.segments = std::move(summed);
  merge_equal_segments(grad);
  return grad;
}

// Redistributes the gradient to the placements of the step's input. After a redistribution from Partial, a Partial
// gradient stays Partial (torch 2.13, _redistribute.py, _redistribute_backward).
Grad redistribute_backward(Backward& b, const TapeEntry& entry, Grad grad, SlotId in) {
  DeclaredPlacements to = gradient_placements(entry.gradient);
  for (size_t axis = 0; axis < to.size(); ++axis) {
    const bool stays_partial = entry.gradient[axis].kind == PlacementKind::Partial && grad.has_declared &&
                               grad.declared[axis].kind == PlacementKind::Partial;
    if (stays_partial) to[axis] = grad.declared[axis];
  }
  grad = redistribute_to_declared(b, entry, std::move(grad), to, in, false);
  grad.has_declared = entry.kind == TapeKind::Redistribute;
  return grad;
}

Grad through_step(Backward& b, const TapeEntry& entry, Grad grad, SlotId in) {
  switch (entry.kind) {
    case TapeKind::Gather:
      return gather_grad(b, entry, std::move(grad));
    case TapeKind::ToLocal:
      grad.has_declared = true;
      grad.declared = entry.gradient;
      return grad;
    case TapeKind::FromLocal:
    case TapeKind::Redistribute:
      return redistribute_backward(b, entry, std::move(grad), in);
    case TapeKind::SumGradient:
      append_grad_call(b, entry, {.kind = CollectiveKind::AllReduce, .axis = static_cast<AxisId>(entry.axis)},
                       b.walk.memory.table.layouts[grad.layout], in);
      return reduce_partial(b, entry, std::move(grad), entry.axis);
    case TapeKind::SumTailGradient:
      return sum_tail_grad(b, entry, std::move(grad), in);
    case TapeKind::View:
      list_calls(b.walk, data_calls(b.walk, b.walk.memory.slots[in].held).backward, entry.module);
      return grad;
    case TapeKind::Dispatch:
    case TapeKind::Combine:
      list_dispatch_backward(b.walk, entry);
      return grad;
    case TapeKind::SumValue:  // _AllReduceForward: the gradient is unchanged
    case TapeKind::Op:        // operation_backward
    case TapeKind::Divide:
    case TapeKind::AddBias:
    case TapeKind::Cast:
      break;
  }
  return grad;
}

// True if the gradient of a sharded value is partial along the same axis, unless it is a DTensor declared Partial.
bool is_misplaced(const Walk& walk, const Grad& grad, const ValueLayout& x) {
  GradState state{};
  if (grad.state == kWrongGrad || !has_uniform_state(grad, state)) return false;
  AxisMask misplaced = state.partial & sharding_axes(walk.memory.table, x) & ~x.partial;
  for (size_t axis = 0; grad.has_declared && axis < grad.declared.size(); ++axis) {
    if (grad.declared[axis].kind == PlacementKind::Partial) misplaced &= ~axis_bit(axis);
  }
  return misplaced != 0;
}

}  // namespace

void step_backward(Backward& b, const TapeEntry& entry) {
  const Walk& walk = b.walk;
  const TapeSlot in = walk.memory.tape_slots[entry.in_begin], out = walk.memory.tape_slots[entry.out_begin];
  Grad grad = b.grads[out.slot];
  if (has_no_grad(grad)) return;
  const bool is_dtensors = entry.kind == TapeKind::FromLocal || entry.kind == TapeKind::Redistribute;
  if (!is_dtensors || grad.layout == 0) grad.layout = out.layout;
  grad = through_step(b, entry, std::move(grad), in.slot);
  grad.layout = in.layout;
  if (is_misplaced(walk, grad, walk.memory.table.layouts[in.layout]))
    grad =
        wrong_grad(b, entry, Code::GradientNotReduced,
                   "the gradient is partial and never reduced, but is used as the full gradient of a shard", grad.rule);
  // A wrong gradient keeps its declared placements.
  if (grad.state == kWrongGrad && (entry.kind == TapeKind::ToLocal || entry.kind == TapeKind::Redistribute)) {
    grad.has_declared = true;
    grad.declared = entry.kind == TapeKind::ToLocal ? entry.gradient : gradient_placements(entry.gradient);
  }
  accumulate_grad(b, in.slot, std::move(grad), entry);
}

}  // namespace tpplan
