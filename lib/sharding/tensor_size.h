// How large a tensor is.
#pragma once

#include <cstdint>
#include <span>

#include "sharding/dtype.h"

namespace tpplan {

// Product of the sizes, which readers keep below 2^63.
uint64_t elements_of(std::span<const int64_t> shape);

// Bytes of a tensor; kTooManyBytes where 64 bits do not hold them.
uint64_t bytes_of(DType dtype, std::span<const int64_t> shape);

}  // namespace tpplan
