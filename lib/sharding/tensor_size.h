// How large a tensor is.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "sharding/dtype.h"

namespace tpplan {

// Product of the sizes, which readers keep below 2^63.
[[nodiscard]] uint64_t elements_of(std::span<const int64_t> shape);

// "[16, 8]": a shape, or other sizes, as people, plans and JSON write them.
[[nodiscard]] std::string shape_text(std::span<const int64_t> shape);
[[nodiscard]] std::string shape_text(std::span<const uint64_t> shape);

// Bytes of a tensor; kTooManyBytes where 64 bits do not hold them.
[[nodiscard]] uint64_t bytes_of(DType dtype, std::span<const int64_t> shape);

}  // namespace tpplan
