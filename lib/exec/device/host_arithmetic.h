// Reductions on the CPU.
#pragma once

#include <cstdint>

#include "exec/device/element_arithmetic.h"
#include "sharding/dtype.h"
#include "sharding/placement.h"

namespace tpplan {

// Computes to[i] = op(to[i], from[i]) as reduce_pair of element_arithmetic.h. Returns false for dtypes without
// arithmetic.
[[nodiscard]] bool reduce_on_host(void* to, const void* from, uint64_t elements, DType dtype, ReduceOp op);

// Computes data[i] /= count, the division of Avg: rounded once, integers towards zero. Returns false for dtypes without
// arithmetic.
[[nodiscard]] bool divide_on_host(void* data, uint64_t elements, DType dtype, uint64_t count);

}  // namespace tpplan
