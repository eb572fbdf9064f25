#include "walk/state/grad.h"

#include <algorithm>

namespace tpplan {

bool has_uniform_state(const Grad& grad, GradState& state) {
  state = grad.state;
  if (grad.segments.empty()) return true;
  state = kNoGrad;
  for (const GradSegment& s : grad.segments) {
    if (s.state == kNoGrad) continue;
    if (state != kNoGrad && s.state != state) return false;
    state = s.state;
  }
  return true;
}

void merge_equal_segments(Grad& grad) {
  GradState all{};
  if (!has_uniform_state(grad, all)) return;
  grad.segments.clear();
  grad.state = all;
}

namespace {

// Returns the state in [begin, end). Each segment covers this range fully or not at all. Wrong takes precedence.
GradState state_between(const std::vector<GradSegment>& segments, int64_t begin, int64_t end, bool& clash) {
  GradState state = kNoGrad;
  for (const GradSegment& s : segments) {
    if (s.begin > begin || s.end < end || s.state == kNoGrad) continue;
    if (state == kNoGrad || s.state == kWrongGrad)
      state = s.state;
    else if (state != s.state && state != kWrongGrad)
      clash = true;
  }
  return state;
}

}  // namespace

void add_segment(std::vector<GradSegment>& segments, const GradSegment& add, bool& clash) {
  // Splits all segments at all borders, then merges overlapping ones.
  segments.push_back(add);
  std::vector<int64_t> ends;
  for (const GradSegment& s : segments) {
    ends.push_back(s.begin);
    ends.push_back(s.end);
  }
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  std::vector<GradSegment> out;
  for (size_t i = 0; i + 1 < ends.size(); ++i) {
    const int64_t begin = ends[i], end = ends[i + 1];
    const GradState state = state_between(segments, begin, end, clash);
    if (state == kNoGrad) continue;
    if (!out.empty() && out.back().end == begin && out.back().state == state)
      out.back().end = end;
    else
      out.push_back({begin, end, state});
  }
  segments = std::move(out);
}

Grad slice_grad(const Grad& grad, const Segment& part) {
  Grad found = grad;
  found.segments.clear();
  if (grad.segments.empty() || grad.dim != part.dim) return found;
  for (const GradSegment& s : grad.segments) {
    const int64_t begin = std::max(s.begin, part.begin), end = std::min(s.end, part.end);
    if (begin < end) found.segments.push_back({begin - part.begin, end - part.begin, s.state});
  }
  if (found.segments.empty())
    found.state = kNoGrad;
  else
    merge_equal_segments(found);
  return found;
}

Grad unslice_grad(Grad grad, const Segment& part, GradState as_one) {
  std::vector<GradSegment> placed;
  if (grad.segments.empty()) {
    placed = {{part.begin, part.end, grad.state}};
  } else if (grad.dim == part.dim) {
    for (const GradSegment& s : grad.segments) placed.push_back({s.begin + part.begin, s.end + part.begin, s.state});
  } else {
    placed = {{part.begin, part.end, as_one}};
  }
  grad.dim = part.dim;
  grad.segments = std::move(placed);
  return grad;
}

}  // namespace tpplan
