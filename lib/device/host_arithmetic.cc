#include "device/host_arithmetic.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>

namespace tpplan {
namespace {

struct Half {
  uint16_t bits;
  operator float() const { return float_of_half(bits); }
  static Half of(float value) { return {half_of_float(value)}; }
};

struct Bfloat16 {
  uint16_t bits;
  operator float() const { return float_of_bfloat16(bits); }
  static Bfloat16 of(float value) { return {bfloat16_of_float(value)}; }
};

template <typename T>
T reduced(T a, T b, ReduceOp op) {
  if (op == ReduceOp::Max) return std::max(a, b);
  if (op == ReduceOp::Min) return std::min(a, b);
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) + static_cast<std::make_unsigned_t<T>>(b));  // wraps, as everywhere
  } else {
    return a + b;
  }
}

template <typename T>
bool reduce_as(void* to, const void* from, uint64_t elements, ReduceOp op) {
  T* a = static_cast<T*>(to);
  const T* b = static_cast<const T*>(from);
  for (uint64_t i = 0; i < elements; ++i) {
    if constexpr (std::is_class_v<T>) {
      a[i] = T::of(reduced<float>(a[i], b[i], op));
    } else {
      a[i] = reduced(a[i], b[i], op);
    }
  }
  return true;
}

template <typename T>
bool divide_as(void* data, uint64_t elements, uint64_t count) {
  T* a = static_cast<T*>(data);
  for (uint64_t i = 0; i < elements; ++i) {
    if constexpr (std::is_class_v<T>) {
      a[i] = T::of(static_cast<float>(a[i]) / static_cast<float>(count));
    } else if constexpr (std::is_signed_v<T> && std::is_integral_v<T>) {
      a[i] = static_cast<T>(static_cast<int64_t>(a[i]) / static_cast<int64_t>(count));
    } else if constexpr (std::is_integral_v<T>) {
      a[i] = static_cast<T>(a[i] / count);
    } else {
      a[i] /= static_cast<T>(count);
    }
  }
  return true;
}

struct Row {
  std::string_view dtype;
  bool (*reduce)(void*, const void*, uint64_t, ReduceOp);
  bool (*divide)(void*, uint64_t, uint64_t);
};

template <typename T>
constexpr Row row(std::string_view dtype) {
  return {dtype, reduce_as<T>, divide_as<T>};
}

constexpr Row kRows[] = {
    row<float>("float32"), row<Bfloat16>("bfloat16"), row<Half>("float16"),    row<double>("float64"),
    row<int8_t>("int8"),   row<uint8_t>("uint8"),     row<int16_t>("int16"),   row<uint16_t>("uint16"),
    row<int32_t>("int32"), row<uint32_t>("uint32"),   row<int64_t>("int64"),   row<uint64_t>("uint64"),
};

const Row* find_row(DType dtype) {
  const auto* found = std::ranges::find(kRows, dtypes()[dtype].name, &Row::dtype);
  return found != std::end(kRows) ? found : nullptr;
}

}  // namespace

float float_of_half(uint16_t bits) {
  const uint32_t sign = (bits & 0x8000u) << 16, exponent = (bits >> 10) & 0x1fu, fraction = bits & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
  const float magnitude = std::ldexp(static_cast<float>(fraction), -24);
  return sign != 0 ? -magnitude : magnitude;
}

uint16_t half_of_float(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value), magnitude = bits & 0x7fffffffu;
  const uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000u);
  if (magnitude > 0x7f800000u) return sign | 0x7e00u;
  if (magnitude >= 0x477ff000u) return sign | 0x7c00u;  // 65520 and more round to infinity
  if (magnitude < 0x38800000u) {                        // below 2^-14: a multiple of 2^-24
    const float scaled = std::bit_cast<float>(magnitude) * 16777216.0f;
    return static_cast<uint16_t>(sign | static_cast<uint16_t>(std::nearbyint(scaled)));
  }
  const uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
  return static_cast<uint16_t>(sign | (rounded - 0x38000000u) >> 13);
}

float float_of_bfloat16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

uint16_t bfloat16_of_float(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>(bits >> 16 | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

bool reduce_on_host(void* to, const void* from, uint64_t elements, DType dtype, ReduceOp op) {
  const Row* found = find_row(dtype);
  return found != nullptr && found->reduce(to, from, elements, op);
}

bool divide_on_host(void* data, uint64_t elements, DType dtype, uint64_t count) {
  const Row* found = find_row(dtype);
  return found != nullptr && found->divide(data, elements, count);
}

}  // namespace tpplan
