// Skips layers that repeat the previous one: what the walk wrote for that layer is written again.
#pragma once

#include <cstdint>

#include "walk/state/walk_state.h"

namespace tpplan {

// A walk depends only on the graph, the plan and its own state. A layer repeats the previous one if
//
// - both are layers of a stack (walk/layers/model_tables.h)
// - the plan has the same rules for their modules and parameters
// - their inputs are the same, except for ids
// - no error was found in the previous layer
//
// Then the outputs are the same too, and so are all following layers. The entries have exactly the ids that a walk of
// each layer would have written. Layouts and sizes are interned, so that their ids do not change.

// Skips the layers from `node` on if they repeat the previous one. Returns the next node; `node` if no layer is
// skipped.
[[nodiscard]] uint32_t repeat_layers(Walk& walk, uint32_t node);

// The state of a stack in the backward pass, for layers that repeated forward: the gradients of two layers are
// compared.
struct BackwardStack {
  const StackWalk* walked = nullptr;
  uint32_t layer = 0;  // the next one in backward order
  bool has_before = false;
  LayerStart mark;  // at the start of the backward of the following layer; the gradients at that time are:
  std::vector<std::pair<SlotId, Grad>> grads;  // of its slots, as offsets from the first one; its leaves, as offsets
                                               // from its first leaf, come after all its slots
  std::vector<uint32_t> uses;                  // Backward::first_use of its leaves, as offsets in its tape
  std::vector<Grad> shared;                    // of slots that all layers use
  std::vector<SlotId> shared_slots;
};

[[nodiscard]] std::vector<BackwardStack> begin_backward_stacks(const Backward& b);
// Skips the layers whose tape ends at `end` if they repeat. Returns the new end; `end` if no layer is skipped.
[[nodiscard]] size_t repeat_layers_backward(Backward& b, std::vector<BackwardStack>& stacks, size_t end);

}  // namespace tpplan
