// Collectives of loss_parallel().
#pragma once

#include "walk/state/walk_state.h"

namespace tpplan {

// Records the calls of loss_parallel(): the largest logit, the sum of exponentials and the target's logit, which each
// rank computes over its classes. The logits are a DTensor that one axis shards along its last dim.
void append_loss_calls(Walk& walk, SlotId logits, ModuleId module);

}  // namespace tpplan
