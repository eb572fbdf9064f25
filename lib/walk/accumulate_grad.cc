#include "walk/accumulate_grad.h"

#include "walk/redistribute_grad.h"
#include "walk/slots.h"

namespace tpplan {
namespace {

// The layout in which torch adds two gradients that are DTensors: a cut decides, and an open sum is closed where the
// other is none.
Claim common_claim(const Claim& a, const Claim& b) {
  Claim common = a;
  for (size_t axis = 0; axis < a.size(); ++axis) {
    if (a[axis] == b[axis] || is_shard(a[axis])) continue;
    common[axis] = is_shard(b[axis]) ? b[axis] : Placement{};
  }
  return common;
}

// A gradient in the place of another, which keeps its claim.
void replace(Grad& have, Grad by) {
  if (!by.has_claim) {
    by.has_claim = have.has_claim;
    by.claim = have.claim;
  }
  have = std::move(by);
}

// Adds by parts. False where a complete part and an open one meet.
bool add_states(Grad& have, Grad& add, std::span<const int64_t> shape) {
  if (have.segments.empty() && add.segments.empty()) return have.state == add.state;
  if (!have.segments.empty() && !add.segments.empty() && have.dim != add.dim) {
    // Parts of different dims: both must be one.
    GradState a{}, b{};
    if (!uniform(have, a) || !uniform(add, b) || a != b) return false;
    have.segments.clear();
    have.state = a;
    return true;
  }
  const uint32_t dim = have.segments.empty() ? add.dim : have.dim;
  if (dim >= shape.size()) return true;
  if (have.segments.empty()) have.segments = {{0, shape[dim], have.state}};
  if (add.segments.empty()) add.segments = {{0, shape[dim], add.state}};
  have.dim = dim;
  bool clash = false;
  for (const GradSegment& s : add.segments) put_segment(have.segments, s, clash);
  have.state = kComplete;
  if (GradState all{}; uniform(have, all)) have.state = all;
  return !clash;
}

}  // namespace

void accumulate(Backward& b, SlotId slot, Grad add, const TapeEntry& entry) {
  Grad& have = b.grads[slot];
  if (is_none(have)) {
    have = std::move(add);
    return;
  }
  if (have.has_claim && add.has_claim && have.claim != add.claim) {
    const Claim common = common_claim(have.claim, add.claim);
    have = redistribute_claim(b, entry, std::move(have), common, slot);
    add = redistribute_claim(b, entry, std::move(add), common, slot);
    have.has_claim = add.has_claim = true;
  }
  if (have.state == kWrongGrad) return;
  if (add.state == kWrongGrad) return replace(have, std::move(add));
  const bool fits = add_states(have, add, shape_of(b.walk, slot));
  if (have.rule == kNoRule) have.rule = add.rule;
  if (fits) return;
  Grad wrong = wrong_grad(b, entry, Code::TP5111,
                          "a gradient that is complete and one that is a term of an open sum are added", have.rule);
  wrong.layout = have.layout;
  replace(have, std::move(wrong));
}

}  // namespace tpplan
