// How the memory of a step follows from its parts. A step is a line of times: what is before the layers, the forward
// passes of the layers, the head and the loss, their backward passes in reverse, what is before the layers again, the
// optimizer. Each part raises the memory to a peak above its begin and leaves a change at its end, so that the largest
// of all peaks follows from sums.
//
// FSDP's buffers are alive in two parts, so their sizes are apart from the peaks: the output of an all_gather until the
// next unit is gathered, in the backward pass from the layer above on, and the input of a reduce_scatter until the next
// unit is reduced (lib/cost/replay_units.cc).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace tpplan {

inline constexpr int64_t kNever = INT64_MIN / 4;  // the peak of a stage that a part does not have

// A layer. Peaks and changes are above the begin of the pass, without the buffers.
struct LayerMemory {
  int64_t own = 0;        // the whole step: parameters, optimizer states
  int64_t optimizer = 0;  // temporary, of all layers at once
  bool is_sharded = false;
  int64_t output = 0, reduced = 0;  // buffers: of its all_gather, of its reduce_scatter
  int64_t gather = kNever;          // forward peak until the unit before gives its buffer back
  int64_t forward = 0, saved = 0;   // forward peak, and what is left
  int64_t regather = kNever;        // backward peak until its own weights are gathered
  int64_t backward = 0;             // until its gradients are reduced
  int64_t reduce = kNever;          // from then on
  int64_t freed = 0;                // change by the backward pass
  int64_t next_backward = 0;        // what a change of the state adds to the backward peak of the next layer
  bool operator==(const LayerMemory&) const = default;
};

struct EndMemory {
  int64_t own = 0;
  int64_t output = 0;                   // buffer of the root's all_gather, until a layer is gathered
  int64_t before = 0, begin = 0;        // peak and change before the layers
  int64_t tail = kNever;                // peak of the head while the last all_gather's buffer is alive
  int64_t loss = 0, prefetch = kNever;  // peaks after it, and while the last layer's weights are gathered again
  int64_t loss_end = 0;
  int64_t after = kNever, root = 0;  // peaks behind the layers, with the lowest layer's gradients and without
  int64_t after_end = 0;
  int64_t optimizer = 0;
  bool operator==(const EndMemory&) const = default;
};

// The memory of the layers so far, without what is outside. Backward peaks are above the loss, if only these layers are
// left of the forward passes; layers that follow add what they leave.
struct MemorySum {
  int64_t own = 0, saved = 0, left = 0, optimizer = 0;  // saved: after forward; left: after forward and backward
  int64_t forward = kNever, forward_open = kNever;      // peaks; open: besides the root's buffer
  int64_t backward = kNever, backward_open = kNever;    // open: besides the reduce_scatter buffer of a layer above
  int64_t output = 0;                                   // buffer of the last all_gather
  int64_t last_output = 0;                              // buffer of the last layer, if it is sharded
  int64_t lowest_reduced = 0;                           // buffer of the first layer that is sharded
  int64_t next_backward = 0;                            // of the last layer
  bool has_sharded = false;
};

inline void add_layer(MemorySum& sum, const LayerMemory& layer) {
  int64_t& before_gather = sum.has_sharded ? sum.forward : sum.forward_open;
  before_gather = std::max(before_gather,
                           sum.saved + sum.output + (layer.is_sharded ? layer.output + layer.gather : layer.forward));
  if (layer.is_sharded) sum.forward = std::max(sum.forward, sum.saved + layer.output + layer.forward);
  sum.saved += layer.saved;
  const int64_t left = layer.saved + layer.freed, backward = layer.backward + sum.next_backward;
  sum.backward += left;
  sum.backward_open += left;
  if (layer.is_sharded) {
    sum.backward = std::max(
        {sum.backward, sum.backward_open + layer.reduced, sum.saved + sum.last_output + layer.reduced + layer.reduce});
    sum.backward_open = sum.saved + std::max(layer.output + layer.regather, sum.last_output + backward);
    if (!sum.has_sharded) sum.lowest_reduced = layer.reduced;
    sum.has_sharded = true;
    sum.output = layer.output;
  } else {
    sum.backward_open = std::max(sum.backward_open, sum.saved + sum.last_output + backward);
  }
  sum.last_output = layer.is_sharded ? layer.output : 0;
  sum.next_backward = layer.next_backward;
  sum.left += left;
  sum.own += layer.own;
  sum.optimizer += layer.optimizer;
}

// Returns the largest memory of the step.
[[nodiscard]] inline uint64_t peak_of(const MemorySum& sum, const EndMemory& ends) {
  const int64_t behind = ends.begin + ends.loss_end + sum.left;
  const int64_t output = sum.has_sharded ? sum.output : ends.output;
  const int64_t loss = std::max({ends.tail + output, ends.loss, ends.prefetch + sum.last_output});
  const int64_t peak =
      std::max({ends.before, ends.begin + sum.forward, ends.begin + ends.output + sum.forward_open,
                ends.begin + sum.saved + loss, ends.begin + ends.loss_end + std::max(sum.backward, sum.backward_open),
                behind + std::max(ends.after + sum.lowest_reduced, ends.root),
                behind + ends.after_end + ends.optimizer + sum.optimizer});
  return static_cast<uint64_t>(std::max<int64_t>(0, sum.own + ends.own + peak));
}

// The figures that decide: the first ones grow with what follows by amounts that do not depend on the layers so far.
enum MemoryFigure : uint8_t {
  kOwn,
  kSaved,
  kForward,
  kForwardOpen,
  kBackward,
  kBackwardOpen,
  kLeft,
  kOptimizer,
  kOutput,
  kLastOutput,
  kLowestReduced,
  kNextBackward
};
inline constexpr size_t kLimitedFigures = kOptimizer + 1, kMemoryFigures = kNextBackward + 1;

using MemoryFigures = std::array<int64_t, kMemoryFigures>;
[[nodiscard]] inline MemoryFigures figures_of(const MemorySum& sum) {
  return {sum.own,
          sum.own + sum.saved,
          sum.own + sum.forward,
          sum.own + sum.forward_open,
          sum.own + sum.backward,
          sum.own + sum.backward_open,
          sum.own + sum.left,
          sum.own + sum.left + sum.optimizer,
          sum.output,
          sum.last_output,
          sum.lowest_reduced,
          sum.next_backward};
}

[[nodiscard]] inline bool is_at_most(const MemoryFigures& a, const MemoryFigures& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] > b[i]) return false;
  }
  return true;
}

// True if `a` is no worse than `b` in every sequence. @pre both are sharded, or neither
[[nodiscard]] inline bool is_at_most(const LayerMemory& a, const LayerMemory& b) {
  const int64_t left_a = a.saved + a.freed, left_b = b.saved + b.freed;
  return a.own <= b.own && a.output <= b.output && a.reduced <= b.reduced && a.own + a.saved <= b.own + b.saved &&
         a.own + a.gather <= b.own + b.gather && a.own + a.forward <= b.own + b.forward &&
         a.own + a.saved + a.regather <= b.own + b.saved + b.regather &&
         a.own + a.saved + a.backward <= b.own + b.saved + b.backward &&
         a.own + a.saved + a.reduce <= b.own + b.saved + b.reduce && a.next_backward <= b.next_backward &&
         a.own + left_a <= b.own + left_b && a.own + left_a + a.optimizer <= b.own + left_b + b.optimizer;
}

[[nodiscard]] inline bool is_at_most(const EndMemory& a, const EndMemory& b) {
  const int64_t loss_a = a.own + a.begin, loss_b = b.own + b.begin;
  const int64_t behind_a = loss_a + a.loss_end, behind_b = loss_b + b.loss_end;
  return a.own + a.before <= b.own + b.before && a.output <= b.output && loss_a <= loss_b &&
         loss_a + a.tail <= loss_b + b.tail && loss_a + a.loss <= loss_b + b.loss &&
         loss_a + a.prefetch <= loss_b + b.prefetch && behind_a <= behind_b &&
         behind_a + a.after <= behind_b + b.after && behind_a + a.root <= behind_b + b.root &&
         behind_a + a.after_end + a.optimizer <= behind_b + b.after_end + b.optimizer;
}

}  // namespace tpplan
