// Reductions on the CPU.
#pragma once

#include <cstdint>

#include "device/element_arithmetic.h"
#include "sharding/dtype.h"
#include "sharding/placement.h"

namespace tpplan {

// to[i] = op(to[i], from[i]) as `reduced` of element_arithmetic.h says. False for a dtype without arithmetic.
[[nodiscard]] bool reduce_on_host(void* to, const void* from, uint64_t elements, DType dtype, ReduceOp op);

// data[i] /= count, the other half of Avg: rounded once, whole numbers towards zero. False for a dtype without
// arithmetic.
[[nodiscard]] bool divide_on_host(void* data, uint64_t elements, DType dtype, uint64_t count);

}  // namespace tpplan
