// Operations on DTensors whose forward works in torch, but not their backward (torch 2.13, tested one by one). They
// have no sharding strategy, or torch fills in missing gradients with plain tensors.
#pragma once

#include <string>

#include "walk/state/walk_state.h"

namespace tpplan {

// Returns why the backward pass fails at this entry; empty if it does not.
[[nodiscard]] std::string rejected_backward(const Backward& b, const TapeEntry& entry);

}  // namespace tpplan
