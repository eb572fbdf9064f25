#include "walk/step_back.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "walk/accumulate_grad.h"
#include "walk/data_axes.h"
#include "walk/dispatch.h"
#include "walk/record_call.h"
#include "walk/redistribute_grad.h"
#include "walk/slots.h"

namespace tpplan {
namespace {

// Cut again, without communication: every rank's is taken to be complete.
Grad gather_back(Backward& b, const TapeEntry& entry, Grad grad) {
  GradState state{};
  if (grad.state == kWrongGrad || (uniform(grad, state) && !is_open(state))) return grad;
  return wrong_grad(b, entry, Code::TP5111, "the gradient is a term of an open sum, and is cut as if it were complete",
                    grad.rule);
}

// mla_kv_a_proj: the ranks add up what they have of the last elements; the others stay as they are.
Grad sum_tail_back(Backward& b, const TapeEntry& entry, Grad grad, SlotId in) {
  const Walk& walk = b.walk;
  const auto shape = shape_of(walk, in);
  const int64_t tail = walk.model_tables.rope_dim;
  if (shape.empty() || tail <= 0 || tail > shape.back()) return grad;
  const auto last = static_cast<uint32_t>(shape.size() - 1);
  std::vector<int64_t> local = local_shape(walk.table, walk.table.layouts[grad.layout], 0);
  local.back() = tail;
  record_call(b.walk, true, CollectiveKind::AllReduce, 0, entry.module, std::move(local), dtype_of(walk, in));
  if (grad.state == kWrongGrad || (!grad.segments.empty() && grad.dim != last)) return grad;
  if (grad.segments.empty()) grad.segments = {{0, shape.back(), grad.state}};
  const int64_t at = shape.back() - tail;
  bool clash = false, complete = false;
  std::vector<GradSegment> closed;
  for (const GradSegment& s : grad.segments) {
    if (s.begin < at) put_segment(closed, {s.begin, std::min(s.end, at), s.state}, clash);
    if (s.end > at) {
      complete = complete || s.state == kComplete;
      put_segment(closed, {std::max(s.begin, at), s.end, kComplete}, clash);
    }
  }
  if (complete)
    return wrong_grad(
        b, entry, Code::TP5112,
        fmt::format("the gradient of the last {} elements is complete on every rank, and is summed over {} ranks", tail,
                    walk.ranks),
        grad.rule);
  grad.dim = last;
  grad.segments = std::move(closed);
  simplify(grad);
  return grad;
}

// DTensor brings what it has to the layout that the step began with. One that was redistributed from an open sum stays
// what it is, as long as it is no piece (torch 2.13, _redistribute.py, _redistribute_backward).
Grad bring_back(Backward& b, const TapeEntry& entry, Grad grad, SlotId in) {
  Claim to = for_gradient(entry.gradient);
  for (size_t axis = 0; axis < to.size(); ++axis) {
    const bool stays_open = entry.gradient[axis].kind == PlacementKind::Partial && grad.has_claim &&
                            grad.claim[axis].kind == PlacementKind::Partial;
    if (stays_open) to[axis] = grad.claim[axis];
  }
  grad = redistribute_claim(b, entry, std::move(grad), to, in, false);
  grad.has_claim = entry.kind == TapeKind::Redistribute;
  return grad;
}

Grad through_step(Backward& b, const TapeEntry& entry, Grad grad, SlotId in) {
  switch (entry.kind) {
    case TapeKind::Gather:
      return gather_back(b, entry, std::move(grad));
    case TapeKind::ToLocal:
      grad.has_claim = true;
      grad.claim = entry.gradient;
      return grad;
    case TapeKind::FromLocal:
    case TapeKind::Redistribute:
      return bring_back(b, entry, std::move(grad), in);
    case TapeKind::SumGradient:
      record_grad_call(b, entry, {.kind = CollectiveKind::AllReduce, .axis = static_cast<AxisId>(entry.axis)},
                       b.walk.table.layouts[grad.layout], in);
      return close_sum(b, entry, std::move(grad), entry.axis);
    case TapeKind::SumTailGradient:
      return sum_tail_back(b, entry, std::move(grad), in);
    case TapeKind::View:
      list_calls(b.walk, data_calls(b.walk, b.walk.slots[in].held).backward, entry.module);
      return grad;
    case TapeKind::Dispatch:
    case TapeKind::Combine:
      list_dispatch_back(b.walk, entry);
      return grad;
    case TapeKind::SumValue:  // _AllReduceForward: the gradient as it is
    case TapeKind::Op:        // operation_back
    case TapeKind::Divide:
    case TapeKind::AddBias:
    case TapeKind::Cast:
      break;
  }
  return grad;
}

// What comes back to a cut value must be its own: a term of a sum has no place there, unless the gradient is a DTensor
// that claims to be one.
bool is_misplaced(const Walk& walk, const Grad& grad, const Spread& x) {
  GradState state{};
  if (grad.state == kWrongGrad || !uniform(grad, state)) return false;
  AxisMask misplaced = state.open & cut_axes(walk.table, x) & ~x.partial;
  for (size_t axis = 0; grad.has_claim && axis < grad.claim.size(); ++axis) {
    if (grad.claim[axis].kind == PlacementKind::Partial) misplaced &= ~axis_bit(axis);
  }
  return misplaced != 0;
}

}  // namespace

void step_back(Backward& b, const TapeEntry& entry) {
  const Walk& walk = b.walk;
  const TapeSlot in = walk.tape_slots[entry.in_begin], out = walk.tape_slots[entry.out_begin];
  Grad grad = b.grads[out.slot];
  if (is_none(grad)) return;
  const bool is_dtensors = entry.kind == TapeKind::FromLocal || entry.kind == TapeKind::Redistribute;
  if (!is_dtensors || grad.layout == 0) grad.layout = out.layout;
  grad = through_step(b, entry, std::move(grad), in.slot);
  grad.layout = in.layout;
  if (is_misplaced(walk, grad, walk.table.layouts[in.layout]))
    grad = wrong_grad(b, entry, Code::TP5111,
                      "the gradient is a term of a sum that nobody closes, and it is used for pieces", grad.rule);
  // A gradient that is wrong goes on being what it is taken for.
  if (grad.state == kWrongGrad && (entry.kind == TapeKind::ToLocal || entry.kind == TapeKind::Redistribute)) {
    grad.has_claim = true;
    grad.claim = entry.kind == TapeKind::ToLocal ? entry.gradient : for_gradient(entry.gradient);
  }
  accumulate(b, in.slot, std::move(grad), entry);
}

}  // namespace tpplan
