// Reductions and the 16-bit floating-point types on the CPU.
#pragma once

#include <cstdint>

#include "sharding/dtype.h"
#include "sharding/placement.h"

namespace tpplan {

// IEEE 754 binary16 and bfloat16 to float32, exactly, and back, rounding to nearest even.
float float_of_half(uint16_t bits);
uint16_t half_of_float(float value);
float float_of_bfloat16(uint16_t bits);
uint16_t bfloat16_of_float(float value);

// to[i] = op(to[i], from[i]) with one rounding an element; Avg adds (whoever divides knows by how many). False for a dtype
// without arithmetic: all but float16, bfloat16, float32, float64 and whole numbers of 8 to 64 bits.
bool reduce_on_host(void* to, const void* from, uint64_t elements, DType dtype, ReduceOp op);

// data[i] /= count, the other half of Avg: rounded once, whole numbers towards zero. False for a dtype without arithmetic.
bool divide_on_host(void* data, uint64_t elements, DType dtype, uint64_t count);

}  // namespace tpplan
