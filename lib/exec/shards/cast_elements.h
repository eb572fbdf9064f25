// Conversion of elements between floating point dtypes.
#pragma once

#include <cstdint>

#include "sharding/dtype.h"

namespace tpplan {

// True between floating point dtypes of at least 16 bits (is_compute_dtype).
[[nodiscard]] bool can_cast(DType from, DType to);

// True if `to` cannot represent every value of `from`.
[[nodiscard]] bool is_lossy_cast(DType from, DType to);

// Converts `count` elements, rounding to nearest even; float64 to 16 bits by way of float32, as torch does. @pre
// can_cast
void cast_elements(void* to, DType to_type, const void* from, DType from_type, uint64_t count);

}  // namespace tpplan
