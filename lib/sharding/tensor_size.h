// Numbers of elements and bytes of a tensor.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "sharding/dtype.h"

namespace tpplan {

// Returns the product of the sizes. Readers reject tensors of 2^63 elements and more.
[[nodiscard]] uint64_t elements_of(std::span<const int64_t> shape);

// Returns "[16, 8]", the form of plans and JSON.
[[nodiscard]] std::string shape_text(std::span<const int64_t> shape);
[[nodiscard]] std::string shape_text(std::span<const uint64_t> shape);

// Returns the bytes of a tensor; kTooManyBytes if they exceed 64 bits.
[[nodiscard]] uint64_t bytes_of(DType dtype, std::span<const int64_t> shape);

}  // namespace tpplan
