// One number as an element of any dtype.
#pragma once

#include <string>

#include "sharding/dtype.h"

namespace tpplan {

// The bytes of `value` as one element (0 as the byte that several elements share); empty where the dtype has no such
// value: a fraction as a whole number, what is out of range, a negative number or 0 as a float8_e8m0fnu, and of the
// types below eight bits all but 0. Floating point types round to nearest even, those of 16 bits by way of float32.
[[nodiscard]] std::string encode_value(DType dtype, double value);

}  // namespace tpplan
