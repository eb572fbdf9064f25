// Operations on DTensors that run forward, and whose way back torch has not (torch 2.13, tried by one after the other):
// without a sharding strategy, or with plain tensors in the place of gradients that nobody has.
#pragma once

#include <string>

#include "walk/grad.h"

namespace tpplan {

// Why the backward pass ends at this entry; empty where it goes on.
[[nodiscard]] std::string refused_back(const Backward& b, const TapeEntry& entry);

}  // namespace tpplan
