// The state of one value's gradient on the ranks in the backward pass, by segment where states differ.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/gradient.h"
#include "ops/op_call.h"
#include "plan/tp_plan.h"

namespace tpplan {

struct GradSegment {
  int64_t begin = 0, end = 0;
  GradState state;
};

// The actual state of a gradient, and its declared placements. A DTensor's gradient is a DTensor, and torch uses its
// placements to decide whether it is partial. A plain tensor's gradient has no placements.
//
// One state applies to the full gradient unless parts of one dim have different uses. In DeepSeek's kv_a_proj one part
// is the input of colwise weights, whose gradient is summed, and the other is not. Then the segments of that dim have
// separate states, and `state` only specifies whether the gradient is wrong.
struct Grad {
  GradState state;
  uint32_t dim = 0;
  std::vector<GradSegment> segments;  // sorted, of one dim of the traced value; empty: `state` applies to all of it
  bool has_declared = false;
  DeclaredPlacements declared;
  ValueLayoutId layout = 0;  // of the operand with this gradient
  uint32_t cause = kNoId;    // why it is wrong
  RuleId rule = kNoRule;     // that made it partial
};

[[nodiscard]] inline bool is_partial(const GradState& state) { return state.partial != 0; }
// True if no gradient has reached the value.
[[nodiscard]] inline bool has_no_grad(const Grad& grad) { return grad.state == kNoGrad && grad.segments.empty(); }
// Returns true with the state if all segments have one state; false if they differ.
[[nodiscard]] bool has_uniform_state(const Grad& grad, GradState& state);
// Removes the segments if all have one state.
void merge_equal_segments(Grad& grad);
// Calls f(GradState&) for the state, or for the state of each segment.
template <typename F>
void each_state(Grad& grad, F f) {
  if (grad.segments.empty()) return f(grad.state);
  for (GradSegment& segment : grad.segments) f(segment.state);
}

// Adds a segment to others of the same dim. Sets `clash` if an overlap has two states.
void add_segment(std::vector<GradSegment>& segments, const GradSegment& add, bool& clash);
// Returns the gradient of one argument of a cat: the segments of the result's gradient inside `part`, with indices from
// its begin. kNoGrad if no segment overlaps.
[[nodiscard]] Grad slice_grad(const Grad& grad, const Segment& part);
// Returns the contribution of one part of a split to the gradient of its input: the gradient of the part, moved to the
// part's indices. `as_one`: its state if its segments are of another dim.
[[nodiscard]] Grad unslice_grad(Grad grad, const Segment& part, GradState as_one);

}  // namespace tpplan
