#include "walk/operation_back.h"

#include <algorithm>

#include "walk/accumulate_grad.h"
#include "walk/dtensor_back.h"
#include "walk/redistribute_grad.h"

namespace tpplan {
namespace {

// One operand of an operation and one result, with what came back to that.
struct BackStep {
  const TapeEntry& entry;
  std::string_view op;
  size_t operand = 0;
  const Spread &x, &y;
  const Grad& out;  // the result's gradient
  RuleId origin;    // of the result
};

std::string_view op_name(const Walk& walk, const TapeEntry& entry) {
  if (entry.kind == TapeKind::Op) return walk.graph.strings[walk.graph.nodes[entry.node].name];
  return entry.kind == TapeKind::Divide ? "div" : "add";
}

// Through the layouts alone.
Grad pass(Backward& b, const BackStep& step, const Grad& out) {
  Grad grad = out;
  grad.has_claim = false;
  bool opened = false, broken = false;
  each_state(grad, [&](GradState& state) {
    const GradState before = state;
    bool opened_here = false;
    state = gradient_through(b.walk.table, state, step.x, step.y, opened_here);
    opened = opened || opened_here;
    broken = broken || (state == kWrongGrad && before != kWrongGrad);
  });
  if (broken)
    return wrong_grad(b, step.entry, Code::TP5111,
                      "the gradient is a term of a sum that nobody closes, and it is used for pieces", out.rule);
  if (opened && step.origin != kNoRule) grad.rule = step.origin;
  return grad;
}

// Operations that use all of a dim as one: what comes of parts in different states is in none.
bool mixes_parts(std::string_view op) {
  return op == "linear" || op == "matmul" || op == "bmm" || op == "view" || op == "reshape";
}

// The operand's gradient, as `given` of the result's goes back through the operation. `placed`: it is then put at its
// part's place, which is no matter of dims.
Grad pass_parts(Backward& b, const BackStep& step, const Grad& given, bool placed) {
  if (given.state == kWrongGrad) {
    Grad grad = given;
    grad.segments.clear();
    return grad;
  }
  const auto& maps = b.walk.table.maps.maps;
  const bool same_dim =
      given.segments.empty() || (given.dim < step.x.dims.size() && step.y.dims.size() == step.x.dims.size() &&
                                 maps[step.x.dims[given.dim]].size == maps[step.y.dims[given.dim]].size);
  GradState all{};
  const bool is_uniform = uniform(given, all);
  if (is_uniform && !given.segments.empty() && !placed && !same_dim) {
    Grad flat = given;
    flat.segments.clear();
    flat.state = all;
    return pass(b, step, flat);
  }
  // The weight's rows are those of the result: its gradient is mixed like it, and no one state is right.
  if (!is_uniform && (mixes_parts(step.op) || !same_dim))
    return wrong_grad(b, step.entry, Code::TP5111,
                      "the gradient is complete in one part of a dim and a term of an open sum in another, and both "
                      "parts are used as one",
                      given.rule);
  return pass(b, step, given);
}

// A plain tensor of one element goes among DTensors as a whole one: its gradient is a DTensor, which knows whether it
// is a term of a sum, and stays one further back.
void claim_of_plain(Backward& b, const BackStep& step, Grad& grad) {
  const bool is_one = std::all_of(step.x.dims.begin(), step.x.dims.end(),
                                  [&](MapId dim) { return b.walk.table.maps.maps[dim].size == 1; });
  if (!is_one || !(step.y.is_dtensor || step.out.has_claim) || grad.state.kind != GradKind::Known) return;
  grad.has_claim = true;
  grad.claim = whole_claim(b.walk);
  for (size_t axis = 0; axis < grad.claim.size(); ++axis) {
    if ((grad.state.open & axis_bit(axis)) != 0) grad.claim[axis].kind = PlacementKind::Partial;
  }
}

// What DTensor claims of an operand's gradient: the operand's own cut where it has one; elsewhere a cut or open result
// leaves a whole operand an open sum. A gradient that claims to be an open sum stays one behind a whole value.
void claim_gradient(Backward& b, const BackStep& step, Grad& grad, const Grad& given) {
  if (!step.x.is_dtensor) return claim_of_plain(b, step, grad);
  if (!step.y.is_dtensor) return;
  grad.has_claim = true;
  grad.claim = whole_claim(b.walk);
  bool once = false;
  for (size_t axis = 0; axis < b.walk.axes.size(); ++axis) {
    const Placement &from = step.x.claim[axis], &to = step.y.claim[axis];
    const bool is_bias = step.op == "linear" && step.operand == 2 && to.kind == PlacementKind::Partial;
    const bool stays_open = step.out.has_claim && step.out.claim[axis].kind == PlacementKind::Partial;
    if (is_shard(from))
      grad.claim[axis] = from;
    else if (is_bias || to.kind == PlacementKind::Replicate || from.kind == PlacementKind::Partial)
      grad.claim[axis] = stays_open ? step.out.claim[axis] : Placement{};
    else
      grad.claim[axis].kind = PlacementKind::Partial;
    once = once || is_bias;
  }
  if (once && grad.state != kWrongGrad) {
    // A bias that is added to one term of the sum: its gradient is the result's.
    grad.state = given.state;
    grad.segments.clear();
  }
}

// Where result `o` of a split, or operand `i` of a cat, stands in the whole; nullptr for other operations.
const Segment* segment_of(const Walk& walk, const TapeEntry& entry, size_t i, size_t o) {
  const Segment* found = nullptr;
  for (uint32_t s = entry.segments_begin; s < entry.segments_end; ++s) {
    if (walk.segments[s].part == (entry.segments_are_arguments ? i : o)) found = &walk.segments[s];
  }
  return found;
}

// `out` is that of result `o`; what comes of it for operand `i`.
void pass_to_operand(Backward& b, const TapeEntry& entry, size_t i, size_t o) {
  Walk& walk = b.walk;
  const TapeSlot &in = walk.tape_slots[entry.in_begin + i], &result = walk.tape_slots[entry.out_begin + o];
  if (!walk.slots[in.slot].requires_grad) return;
  if (Grad grad; dtensor_grad(b, entry, i, o, grad)) return accumulate(b, in.slot, std::move(grad), entry);
  const Grad& out = b.grads[result.slot];
  const BackStep step{.entry = entry,
                      .op = op_name(walk, entry),
                      .operand = i,
                      .x = walk.table.layouts[in.layout],
                      .y = walk.table.layouts[result.layout],
                      .out = out,
                      .origin = walk.slots[result.slot].origin};
  const Segment* segment = segment_of(walk, entry, i, o);
  const bool is_part_of_cat = segment != nullptr && entry.segments_are_arguments && !out.segments.empty();
  const bool is_part_of_split = segment != nullptr && !entry.segments_are_arguments;
  const Grad given = is_part_of_cat ? cut_out(out, *segment) : out;
  if (is_part_of_cat && is_none(given)) return;
  Grad grad = pass_parts(b, step, given, is_part_of_split);
  if (is_part_of_split && grad.state != kWrongGrad) {
    GradState all{};
    const bool is_uniform = uniform(given, all);
    grad = put_in_place(std::move(grad), *segment, is_uniform ? all : kWrongGrad);
  }
  grad.layout = in.layout;
  claim_gradient(b, step, grad, given);
  accumulate(b, in.slot, std::move(grad), entry);
}

}  // namespace

void operation_back(Backward& b, const TapeEntry& entry) {
  const Walk& walk = b.walk;
  for (size_t o = 0; o < entry.out_end - entry.out_begin; ++o) {
    const TapeSlot& result = walk.tape_slots[entry.out_begin + o];
    if (is_none(b.grads[result.slot])) continue;
    bring_result_grad(b, entry, o);
    for (size_t i = 0; i < entry.in_end - entry.in_begin; ++i) pass_to_operand(b, entry, i, o);
  }
}

}  // namespace tpplan
