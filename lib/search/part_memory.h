// How the memory of a step follows from its parts. A step is a line of times: what is before the layers, the forward
// passes of the layers, the head and the loss, their backward passes in reverse, what is before the layers again, the
// optimizer. Each part raises the memory to a peak above its begin and leaves a change at its end, so that the largest
// of all peaks follows from sums.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace tpplan {

// The memory in one part, above that at its begin.
struct PartSpan {
  int64_t peak = 0, end = 0;
  bool operator==(const PartSpan&) const = default;
};

struct LayerMemory {
  int64_t own = 0;  // the whole step: parameters, optimizer states
  PartSpan forward, backward;
  int64_t optimizer = 0;  // temporary, of all layers at once
  bool operator==(const LayerMemory&) const = default;
};

struct EndMemory {
  int64_t own = 0;
  PartSpan before, loss, after, optimizer;
  bool operator==(const EndMemory&) const = default;
};

// The memory of the layers so far, without what is outside. `backward` is the largest peak of their backward passes
// above the loss, if only they are left of the forward passes; layers that follow add what they leave.
struct MemorySum {
  int64_t own = 0, saved = 0, left = 0, optimizer = 0;  // saved: after forward; left: after forward and backward
  int64_t forward = 0, backward = INT64_MIN / 4;
};

inline void add_layer(MemorySum& sum, const LayerMemory& layer) {
  const int64_t left = layer.forward.end + layer.backward.end;
  sum.forward = std::max(sum.forward, sum.saved + layer.forward.peak);
  sum.saved += layer.forward.end;
  sum.backward = std::max(sum.backward + left, sum.saved + layer.backward.peak);
  sum.left += left;
  sum.own += layer.own;
  sum.optimizer += layer.optimizer;
}

// Returns the largest memory of the step.
[[nodiscard]] inline uint64_t peak_of(const MemorySum& sum, const EndMemory& ends) {
  const int64_t begin = ends.before.end, behind = begin + ends.loss.end + sum.left, last = behind + ends.after.end;
  const int64_t peak = std::max({ends.before.peak, begin + sum.forward, begin + sum.saved + ends.loss.peak,
                                 begin + ends.loss.end + sum.backward, behind + ends.after.peak,
                                 last + ends.optimizer.peak + sum.optimizer});
  return static_cast<uint64_t>(std::max<int64_t>(0, sum.own + ends.own + peak));
}

// The figures that decide: each grows with what follows by amounts that do not depend on the layers so far.
using MemoryFigures = std::array<int64_t, 6>;
[[nodiscard]] inline MemoryFigures figures_of(const MemorySum& sum) {
  return {sum.own,
          sum.own + sum.saved,
          sum.own + sum.forward,
          sum.own + sum.backward,
          sum.own + sum.left,
          sum.own + sum.left + sum.optimizer};
}

[[nodiscard]] inline bool is_at_most(const MemoryFigures& a, const MemoryFigures& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] > b[i]) return false;
  }
  return true;
}

// True if `a` is no worse than `b` in every sequence.
[[nodiscard]] inline bool is_at_most(const LayerMemory& a, const LayerMemory& b) {
  const int64_t left_a = a.forward.end + a.backward.end, left_b = b.forward.end + b.backward.end;
  return a.own <= b.own && a.own + a.forward.end <= b.own + b.forward.end &&
         a.own + a.forward.peak <= b.own + b.forward.peak &&
         a.own + a.forward.end + a.backward.peak <= b.own + b.forward.end + b.backward.peak &&
         a.own + left_a <= b.own + left_b && a.own + left_a + a.optimizer <= b.own + left_b + b.optimizer;
}

[[nodiscard]] inline bool is_at_most(const EndMemory& a, const EndMemory& b) {
  const int64_t behind_a = a.before.end + a.loss.end, behind_b = b.before.end + b.loss.end;
  const int64_t last_a = behind_a + a.after.end, last_b = behind_b + b.after.end;
  return a.own + a.before.peak <= b.own + b.before.peak && a.own + a.before.end <= b.own + b.before.end &&
         a.own + a.before.end + a.loss.peak <= b.own + b.before.end + b.loss.peak &&
         a.own + behind_a <= b.own + behind_b && a.own + behind_a + a.after.peak <= b.own + behind_b + b.after.peak &&
         a.own + last_a + a.optimizer.peak <= b.own + last_b + b.optimizer.peak;
}

}  // namespace tpplan
