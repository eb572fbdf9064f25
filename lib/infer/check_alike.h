// Projections whose outputs meet in one product are cut alike: reports TP5152. `module` may be the first of some.
#pragma once

#include "infer/neighbours.h"

namespace tpplan {

void check_alike(const Neighbours& n, ModuleId module);

}  // namespace tpplan
