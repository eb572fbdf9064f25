// Elements of one type as those of another.
#pragma once

#include <cstdint>

#include "sharding/dtype.h"

namespace tpplan {

// Between types of floating point of 16 bits and more (is_model_type).
[[nodiscard]] bool can_cast(DType from, DType to);

// Whether some value of the one is none of the other.
[[nodiscard]] bool loses_by_cast(DType from, DType to);

// Rounded to nearest even, of float64 to 16 bits by way of float32, as torch does it. For types that can_cast allows.
void cast_elements(void* to, DType to_type, const void* from, DType from_type, uint64_t count);

}  // namespace tpplan
