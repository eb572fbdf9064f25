// How the memory of layers and of what is outside of them makes the memory of a step.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tpplan {

struct LayerMemory {
  int64_t held = 0;        // the whole step: parameters, gradients, optimizer states, saved activations
  uint64_t transient = 0;  // only while the layer runs
  bool operator==(const LayerMemory&) const = default;
};
using EndMemory = LayerMemory;

// The memory of the layers so far.
struct MemorySum {
  int64_t held = 0;
  uint64_t transient = 0;
};

inline void add_layer(MemorySum& sum, const LayerMemory& layer) {
  sum.held += layer.held;
  sum.transient = std::max(sum.transient, layer.transient);
}

[[nodiscard]] inline uint64_t peak_of(const MemorySum& sum, const EndMemory& ends) {
  return static_cast<uint64_t>(sum.held + ends.held) + std::max(sum.transient, ends.transient);
}

// True if `a` is no worse than `b`, whatever follows.
[[nodiscard]] inline bool is_at_most(const MemorySum& a, const MemorySum& b) {
  return a.held <= b.held && a.transient <= b.transient;
}

[[nodiscard]] inline bool is_at_most(const LayerMemory& a, const LayerMemory& b) {
  return a.held <= b.held && a.transient <= b.transient;
}

}  // namespace tpplan
