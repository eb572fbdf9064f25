// Reductions on the CPU.
#pragma once

#include <cstdint>

#include "device/element_arithmetic.h"
#include "sharding/dtype.h"
#include "sharding/placement.h"

namespace tpplan {

// to[i] = op(to[i], from[i]) as `reduced` of element_arithmetic.h says. False for a dtype without arithmetic.
bool reduce_on_host(void* to, const void* from, uint64_t elements, DType dtype, ReduceOp op);

}  // namespace tpplan
