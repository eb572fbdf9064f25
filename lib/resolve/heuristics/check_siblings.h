// Reports TP5152 if projections whose outputs are combined (q, k, v; gate, up) are sharded differently.
#pragma once

#include "resolve/heuristics/neighbours.h"

namespace tpplan {

void check_siblings(const Neighbours& n);

}  // namespace tpplan
