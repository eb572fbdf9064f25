// Layers that do what the one before did are not walked: what that wrote is written again.
#pragma once

#include <cstdint>

#include "walk/grad.h"

namespace tpplan {

// A walk looks at nothing but the graph, the plan, and what it has written itself. Where the layers of a stack are
// alike (walk/model_tables.h), the plan treats their modules and parameters alike, the values that a layer takes are,
// but for their numbers, those that the layer before took, and that layer had nothing reported, the layer does what the
// one before did; so that what it leaves is again alike, and so for all that follow. What is written then is, number by
// number, what a walk of each layer would have written: layouts and sizes that it made are interned, and have the
// number that they had.

// Before node `node`: the node to go on with, `node` itself where nothing is left out.
[[nodiscard]] uint32_t repeat_layers(Walk& walk, uint32_t node);

// The same on the way back, over the layers that did the same forward: gradients that come back to a layer are
// compared.
struct BackStack {
  const StackWalk* walked = nullptr;
  uint32_t layer = 0;  // the next one, going back
  bool has_before = false;
  LayerMark mark;  // where the way back through the layer behind it began, and what had come back to it then:
  std::vector<std::pair<SlotId, Grad>> grads;  // to its own slots, told from the first of them; leaves told from
                                               // the first of its leaves come after all slots of a layer
  std::vector<uint32_t> uses;                  // Backward::first_use of its leaves, told from its tape
  std::vector<Grad> shared;                    // to slots that all layers see
  std::vector<SlotId> shared_slots;
};

[[nodiscard]] std::vector<BackStack> begin_back_stacks(const Backward& b);
// Before the entries below `end` of the tape: where to go on, `end` itself where nothing is left out.
[[nodiscard]] size_t repeat_layers_back(Backward& b, std::vector<BackStack>& stacks, size_t end);

}  // namespace tpplan
