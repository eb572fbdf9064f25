// The storage of each value of a step: a view shares that of its operand.
#pragma once

#include "cost/step_memory.h"

namespace tpplan {

// `each_layer`: omits no layer. `has_flash`: flash kernels of CUDA compute attention in 16 bits.
[[nodiscard]] StepMemory follow_memory(const StepTrace& trace, const OpGraph& graph, bool each_layer,
                                       bool has_flash = false);

}  // namespace tpplan
