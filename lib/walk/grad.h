// What the ranks have of one value's gradient on the way back, and its parts where they differ.
#pragma once

#include <string>
#include <vector>

#include "ops/gradient.h"
#include "walk/walk_state.h"

namespace tpplan {

struct GradSegment {
  int64_t begin = 0, end = 0;
  GradState state;
};

// The truth, in which state it is, and beside it the claim: a DTensor's gradient is a DTensor whose placements say
// whether it is open, and torch goes by these. A plain tensor's gradient claims nothing.
//
// One state does for all of it but where parts of one dim went different ways (kv_a_proj of DeepSeek: one part goes
// through column-wise weights, whose inputs' gradients are summed, the other does not): then segments of that dim have
// states of their own, and `state` says only whether it is wrong.
struct Grad {
  GradState state;
  uint32_t dim = 0;
  std::vector<GradSegment> segments;  // ordered, of one dim of the recorded value; empty: all of it is `state`
  bool has_claim = false;
  Claim claim;
  SpreadId layout = 0;     // of the operand that it is the gradient of
  uint32_t cause = kNoId;  // why it is wrong
  RuleId rule = kNoRule;   // that left it open
};

struct Backward {
  Walk& walk;
  std::vector<Grad>& grads;          // by slot
  std::vector<uint32_t>& first_use;  // by slot: the last tape entry, going back, that adds to its gradient
};

[[nodiscard]] inline bool is_open(const GradState& state) { return state.open != 0; }
// Nothing came back to it.
[[nodiscard]] inline bool is_none(const Grad& grad) { return grad.state == kNoGrad && grad.segments.empty(); }
// One state for all of it; false where segments differ.
[[nodiscard]] bool uniform(const Grad& grad, GradState& state);
// Drops segments that are all in one state.
void simplify(Grad& grad);
// Calls f(GradState&) for the state, or for that of each segment.
template <typename F>
void each_state(Grad& grad, F f) {
  if (grad.segments.empty()) return f(grad.state);
  for (GradSegment& segment : grad.segments) f(segment.state);
}

// Adds a segment to others of the same dim: what overlaps must be in one state, else `clash`.
void put_segment(std::vector<GradSegment>& segments, const GradSegment& add, bool& clash);
// The gradient of the part of a cat: of its result's, what stands at the part, told from its beginning. None where
// nothing came back to it.
[[nodiscard]] Grad cut_out(const Grad& grad, const Segment& part);
// The gradient of what a split was of, as far as one part's gradient says it: that, at the part's place. `as_one`: what
// it comes to where its own segments are of another dim.
[[nodiscard]] Grad put_in_place(Grad grad, const Segment& part, GradState as_one);

// A gradient that is wrong from this entry on, for a reason that is said where it reaches a parameter.
[[nodiscard]] Grad wrong_grad(Backward& b, const TapeEntry& entry, Code code, std::string reason, RuleId partner);

}  // namespace tpplan
