// colwise and rowwise come in pairs: reports TP5150 and TP5151 for layers without a partner.
#pragma once

#include "infer/neighbours.h"

namespace tpplan {

void check_pairs(const Neighbours& n);

}  // namespace tpplan
