// Slots of the model's inputs, parameters, buffers and constants.
#pragma once

#include "walk/state/walk_state.h"

namespace tpplan {

// Gives each leaf of the graph a slot with the layout that the runtime makes of it.
void bind_leaves(Walk& walk);

}  // namespace tpplan
