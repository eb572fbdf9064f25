#include "walk/backward/operation_backward.h"

#include <algorithm>

#include "walk/backward/accumulate_grad.h"
#include "walk/backward/dtensor_backward.h"
#include "walk/backward/redistribute_grad.h"
#include "walk/run/sequence_exchange.h"
#include "walk/state/causes.h"
#include "walk/state/slots.h"
#include "walk/state/tape.h"

namespace tpplan {
namespace {

// One operand and one result of an operation, with the gradient of the result.
struct BackwardStep {
  const TapeEntry& entry;
  OpId op;
  size_t operand = 0;
  const ValueLayout &x, &y;
  const Grad& out;  // the result's gradient
  RuleId origin;    // of the result
};

// Propagates a gradient by the layouts only.
Grad pass(Backward& b, const BackwardStep& step, const Grad& out) {
  Grad grad = out;
  grad.has_declared = false;
  bool made_partial = false, broken = false;
  each_state(grad, [&](GradState& state) {
    const GradState before = state;
    bool made_partial_here = false;
    state = gradient_through(b.walk.memory.table, state, step.x, step.y, made_partial_here);
    made_partial = made_partial || made_partial_here;
    broken = broken || (state == kWrongGrad && before != kWrongGrad);
  });
  if (broken)
    return wrong_grad(b, step.entry, Code::GradientNotReduced,
                      "the gradient is partial and never reduced, but is used as the full gradient of a shard",
                      out.rule);
  if (made_partial && step.origin != kNoRule) grad.rule = step.origin;
  return grad;
}

// Operations that combine all elements of a dim, so that segments with different states have no common state.
constexpr auto kMixesParts = op_set({OpId::Linear, OpId::Matmul, OpId::Bmm, OpId::View, OpId::Reshape});

// Returns the gradient of the operand for the gradient `given` of the result. `placed`: the caller moves it to the
// place of its segment, so that the sizes of the dim can differ.
Grad pass_parts(Backward& b, const BackwardStep& step, const Grad& given, bool placed) {
  if (given.state == kWrongGrad) {
    Grad grad = given;
    grad.segments.clear();
    return grad;
  }
  const auto& maps = b.walk.memory.table.maps.maps;
  const bool same_dim =
      given.segments.empty() || (given.dim < step.x.dims.size() && step.y.dims.size() == step.x.dims.size() &&
                                 maps[step.x.dims[given.dim]].size == maps[step.y.dims[given.dim]].size);
  GradState all{};
  const bool is_uniform = has_uniform_state(given, all);
  if (is_uniform && !given.segments.empty() && !placed && !same_dim) {
    Grad flat = given;
    flat.segments.clear();
    flat.state = all;
    return pass(b, step, flat);
  }
  // After such an operation no single state is right. The gradient of a weight is mixed too, because its rows are those
  // of the result.
  if (!is_uniform && (kMixesParts[index_of(step.op)] || !same_dim))
    return wrong_grad(
        b, step.entry, Code::GradientNotReduced,
        "the gradient is full in one part of a dim and partial in another, but both parts are used as one", given.rule);
  return pass(b, step, given);
}

// Declares the gradient of a plain one-element tensor among DTensors. Torch makes it a replicated DTensor, so its
// gradient is a DTensor too, which is declared Partial if it is partial.
void declare_plain_gradient(Backward& b, const BackwardStep& step, Grad& grad) {
  const bool is_one = std::all_of(step.x.dims.begin(), step.x.dims.end(),
                                  [&](DimLayoutId dim) { return b.walk.memory.table.maps.maps[dim].size == 1; });
  if (!is_one || !(step.y.is_dtensor || step.out.has_declared) || grad.state.kind != GradKind::Known) return;
  grad.has_declared = true;
  grad.declared = replicated_placements(b.walk);
  for (size_t axis = 0; axis < grad.declared.size(); ++axis) {
    if ((grad.state.partial & axis_bit(axis)) != 0) grad.declared[axis].kind = PlacementKind::Partial;
  }
}

// Sets the placements that DTensor declares for an operand's gradient. A sharded operand has its own shards. A
// replicated operand has Partial if the result is sharded or partial; otherwise a Partial gradient stays Partial.
void declare_gradient(Backward& b, const BackwardStep& step, Grad& grad, const Grad& given) {
  if (!step.x.is_dtensor) return declare_plain_gradient(b, step, grad);
  if (!step.y.is_dtensor) return;
  grad.has_declared = true;
  grad.declared = replicated_placements(b.walk);
  bool once = false;
  for (size_t axis = 0; axis < b.walk.in.axes.size(); ++axis) {
    const Placement &from = step.x.declared[axis], &to = step.y.declared[axis];
    const bool is_bias = step.op == OpId::Linear && step.operand == 2 && to.kind == PlacementKind::Partial;
    const bool stays_partial = step.out.has_declared && step.out.declared[axis].kind == PlacementKind::Partial;
    if (is_shard(from))
      grad.declared[axis] = from;
    else if (is_bias || to.kind == PlacementKind::Replicate || from.kind == PlacementKind::Partial)
      grad.declared[axis] = stays_partial ? step.out.declared[axis] : Placement{};
    else
      grad.declared[axis].kind = PlacementKind::Partial;
    once = once || is_bias;
  }
  if (once && grad.state != kWrongGrad) {
    // The bias is added to the partial sum only once, so its gradient is that of the result.
    grad.state = given.state;
    grad.segments.clear();
  }
}

// Returns the segment of result `o` of a split, or of operand `i` of a cat; nullptr for other operations.
const Segment* segment_of(const Walk& walk, const TapeEntry& entry, size_t i, size_t o) {
  const Segment* found = nullptr;
  for (uint32_t s = entry.segments_begin; s < entry.segments_end; ++s) {
    if (walk.memory.segments[s].part == (entry.segments_are_arguments ? i : o)) found = &walk.memory.segments[s];
  }
  return found;
}

// Adds the contribution of result `o` to the gradient of operand `i`.
void pass_to_operand(Backward& b, const TapeEntry& entry, size_t i, size_t o) {
  Walk& walk = b.walk;
  const TapeSlot &in = walk.memory.tape_slots[entry.in_begin + i],
                 &result = walk.memory.tape_slots[entry.out_begin + o];
  if (!walk.memory.slots[in.slot].requires_grad) return;
  if (Grad grad; dtensor_grad(b, entry, i, o, grad)) return accumulate_grad(b, in.slot, std::move(grad), entry);
  const Grad& out = b.grads[result.slot];
  const BackwardStep step{.entry = entry,
                          .op = op_of(walk, entry),
                          .operand = i,
                          .x = walk.memory.table.layouts[in.layout],
                          .y = walk.memory.table.layouts[result.layout],
                          .out = out,
                          .origin = walk.memory.slots[result.slot].origin};
  const Segment* segment = segment_of(walk, entry, i, o);
  const bool is_part_of_cat = segment != nullptr && entry.segments_are_arguments && !out.segments.empty();
  const bool is_part_of_split = segment != nullptr && !entry.segments_are_arguments;
  const Grad given = is_part_of_cat ? slice_grad(out, *segment) : out;
  if (is_part_of_cat && has_no_grad(given)) return;
  Grad grad = pass_parts(b, step, given, is_part_of_split);
  if (is_part_of_split && grad.state != kWrongGrad) {
    GradState all{};
    const bool is_uniform = has_uniform_state(given, all);
    grad = unslice_grad(std::move(grad), *segment, is_uniform ? all : kWrongGrad);
  }
  grad.layout = in.layout;
  declare_gradient(b, step, grad, given);
  accumulate_grad(b, in.slot, std::move(grad), entry);
}

}  // namespace

void operation_backward(Backward& b, const TapeEntry& entry) {
  Walk& walk = b.walk;
  const bool is_attention = op_row(op_of(walk, entry)).rule == rule_attention && entry.in_end - entry.in_begin > 2;
  if (is_attention && !has_no_grad(b.grads[walk.memory.tape_slots[entry.out_begin].slot]))
    list_sequence_exchange(walk, {.backward = true,
                                  .module = entry.module,
                                  .key = walk.memory.tape_slots[entry.in_begin + 1].slot,
                                  .value = walk.memory.tape_slots[entry.in_begin + 2].slot});
  for (size_t o = 0; o < entry.out_end - entry.out_begin; ++o) {
    const TapeSlot& result = walk.memory.tape_slots[entry.out_begin + o];
    if (has_no_grad(b.grads[result.slot])) continue;
    redistribute_result_grad(b, entry, o);
    for (size_t i = 0; i < entry.in_end - entry.in_begin; ++i) pass_to_operand(b, entry, i, o);
  }
}

}  // namespace tpplan
