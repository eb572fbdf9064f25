// The arithmetic of one element, for CPU and GPU compilers with bit-identical results. It uses only additions,
// comparisons and integers, which no compiler contracts or approximates.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "sharding/placement.h"

#ifdef __CUDACC__
#define TPPLAN_HOST_DEVICE __host__ __device__
#else
#define TPPLAN_HOST_DEVICE
#endif

namespace tpplan {

[[nodiscard]] TPPLAN_HOST_DEVICE inline uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

[[nodiscard]] TPPLAN_HOST_DEVICE inline float float_of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

// IEEE 754 binary16 and bfloat16 to float32, exactly, and back, rounding to nearest even.
[[nodiscard]] TPPLAN_HOST_DEVICE inline float float_of_half(uint16_t half) {
  const uint32_t sign = (half & 0x8000u) << 16, exponent = (half >> 10) & 0x1fu, fraction = half & 0x3ffu;
  if (exponent == 0x1f) return float_of_bits(sign | 0x7f800000u | fraction << 13);
  if (exponent != 0) return float_of_bits(sign | (exponent + 112) << 23 | fraction << 13);
  const float magnitude = static_cast<float>(fraction) * 0x1p-24f;  // exact: a power of two
  return sign != 0 ? -magnitude : magnitude;
}

[[nodiscard]] TPPLAN_HOST_DEVICE inline uint16_t half_of_float(float value) {
  const uint32_t bits = bits_of(value), magnitude = bits & 0x7fffffffu;
  const uint32_t sign = bits >> 16 & 0x8000u;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // 65520 and more round to infinity
  if (magnitude < 0x38800000u) {  // below 2^-14: a multiple of 2^-24, which adding 2^-1 leaves in the lowest bits
    return static_cast<uint16_t>(sign | (bits_of(float_of_bits(magnitude) + 0.5f) - 0x3f000000u));
  }
  const uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
  return static_cast<uint16_t>(sign | (rounded - 0x38000000u) >> 13);
}

[[nodiscard]] TPPLAN_HOST_DEVICE inline float float_of_bfloat16(uint16_t half) {
  return float_of_bits(static_cast<uint32_t>(half) << 16);
}

[[nodiscard]] TPPLAN_HOST_DEVICE inline uint16_t bfloat16_of_float(float value) {
  const uint32_t bits = bits_of(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>(bits >> 16 | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

struct Half {
  uint16_t bits;
  TPPLAN_HOST_DEVICE operator float() const { return float_of_half(bits); }
  TPPLAN_HOST_DEVICE static Half of(float value) { return {half_of_float(value)}; }
};

struct Bfloat16 {
  uint16_t bits;
  TPPLAN_HOST_DEVICE operator float() const { return float_of_bfloat16(bits); }
  TPPLAN_HOST_DEVICE static Bfloat16 of(float value) { return {bfloat16_of_float(value)}; }
};

// The quiet NaN with no payload: processors disagree on the bits of a NaN that arithmetic makes.
template <typename T>
[[nodiscard]] TPPLAN_HOST_DEVICE T quiet_nan() {
  if constexpr (sizeof(T) == sizeof(float)) {
    return float_of_bits(0x7fc00000u);
  } else {
    const uint64_t bits = 0x7ff8000000000000u;
    T value;
    memcpy(&value, &bits, sizeof value);
    return value;
  }
}

// Returns op(a, b) with one rounding; integers wrap. Max and Min return `a` if the values are unordered. Avg adds: the
// caller divides by the count.
template <typename T>
[[nodiscard]] TPPLAN_HOST_DEVICE T reduce_pair(T a, T b, ReduceOp op) {
  if constexpr (std::is_class_v<T>) {
    return T::of(reduce_pair<float>(a, b, op));
  } else {
    if (op == ReduceOp::Max) return a < b ? b : a;
    if (op == ReduceOp::Min) return b < a ? b : a;
    if constexpr (std::is_integral_v<T>) {
      using Unsigned = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<Unsigned>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b)));
    } else {
      const T sum = a + b;
      return sum == sum ? sum : quiet_nan<T>();
    }
  }
}

// Returns a / count with one rounding, integers towards zero: the division of Avg. NaN as in `reduce_pair`.
template <typename T>
[[nodiscard]] TPPLAN_HOST_DEVICE T divide_value(T a, uint64_t count) {
  if constexpr (std::is_class_v<T>) {
    return T::of(divide_value<float>(a, count));
  } else if constexpr (std::is_integral_v<T>) {
    if constexpr (std::is_signed_v<T>) return static_cast<T>(static_cast<int64_t>(a) / static_cast<int64_t>(count));
    return static_cast<T>(a / count);
  } else {
    const T quotient = a / static_cast<T>(count);
    return quotient == quotient ? quotient : quiet_nan<T>();
  }
}

// Calls visit(T{}) with the C++ type of dtype `name`. Returns false for dtypes without arithmetic: all but float16,
// bfloat16, float32, float64 and integers of 8 to 64 bits.
template <typename Visit>
[[nodiscard]] bool visit_arithmetic_type(std::string_view name, Visit&& visit) {
  const auto is = [&](std::string_view dtype, auto zero) {
    if (name != dtype) return false;
    visit(zero);
    return true;
  };
  return is("float32", float{}) || is("bfloat16", Bfloat16{}) || is("float16", Half{}) || is("float64", double{}) ||
         is("int8", int8_t{}) || is("uint8", uint8_t{}) || is("int16", int16_t{}) || is("uint16", uint16_t{}) ||
         is("int32", int32_t{}) || is("uint32", uint32_t{}) || is("int64", int64_t{}) || is("uint64", uint64_t{});
}

}  // namespace tpplan
