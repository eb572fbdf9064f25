// One number as an element of any dtype.
#pragma once

#include <string>

#include "sharding/dtype.h"

namespace tpplan {

// The bytes of `value` as one element (of two elements that share a byte); empty where the dtype has no such value: a fraction
// as a whole number, what is out of range, anything but 0 and 1 in eight bits of floating point, but 0 in packed types.
// Floating point types round to nearest even, those of 16 bits by way of float32.
std::string encode_value(DType dtype, double value);

}  // namespace tpplan
