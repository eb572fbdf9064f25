// Encodes a number as an element of any dtype.
#pragma once

#include <string>

#include "sharding/dtype.h"

namespace tpplan {

// Returns the bytes of `value` as one element (below eight bits: the byte that several elements share). Empty if the
// dtype has no such value: a fraction as an integer, a value out of range, a negative number or 0 as a float8_e8m0fnu,
// and below eight bits all but 0. Floating point rounds to nearest even, 16 bits by way of float32.
[[nodiscard]] std::string encode_value(DType dtype, double value);

}  // namespace tpplan
