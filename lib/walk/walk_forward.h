// The forward pass of a walk.
#pragma once

namespace tpplan {

struct Walk;

// Initialises the state of the walk before the first operation.
void begin_walk(Walk& walk);

// Walks all nodes, up to the one at which the run fails. @pre begin_walk
void walk_forward(Walk& walk);

}  // namespace tpplan
