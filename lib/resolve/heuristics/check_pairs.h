// Reports TP5150 for colwise layers without a rowwise partner, and TP5151 for rowwise layers without a colwise one.
#pragma once

#include "resolve/heuristics/neighbours.h"

namespace tpplan {

void check_pairs(const Neighbours& n);

}  // namespace tpplan
