#include "shards/encode_value.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <iterator>

#include "device/host_arithmetic.h"

namespace tpplan {
namespace {

template <typename T>
std::string bytes_of_value(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof value);
}

// Types of whole numbers: [low, end).
struct WholeRow {
  std::string_view name;
  double low, end;
};

constexpr WholeRow kWhole[] = {
    {"int8", -0x1p7, 0x1p7},    {"uint8", 0, 0x1p8},        {"int16", -0x1p15, 0x1p15},
    {"uint16", 0, 0x1p16},      {"int32", -0x1p31, 0x1p31}, {"uint32", 0, 0x1p32},
    {"int64", -0x1p63, 0x1p63}, {"uint64", 0, 0x1p64},      {"bool", 0, 2},
};

// Eight bits of floating point: sign, exponent, mantissa (OCP 8-bit Floating Point Specification 1.0; ml_dtypes 0.5 for
// the others). `largest` is the code of the largest finite number.
struct SmallRow {
  std::string_view name;
  int mantissa_bits, bias;
  unsigned largest;
};

constexpr SmallRow kSmall[] = {
    {"float8_e4m3fn", 3, 7, 0x7e},       {"float8_e5m2", 2, 15, 0x7b}, {"float8_e4m3fnuz", 3, 8, 0x7f},
    {"float8_e5m2fnuz", 2, 16, 0x7f},    {"float8_e4m3", 3, 7, 0x77},  {"float8_e3m4", 4, 3, 0x6f},
    {"float8_e4m3b11fnuz", 3, 11, 0x7f},
};

double decoded(const SmallRow& row, unsigned code) {
  const int exponent = static_cast<int>(code >> row.mantissa_bits);
  const auto mantissa = static_cast<double>(code & ((1u << row.mantissa_bits) - 1));
  const double one = std::ldexp(1.0, row.mantissa_bits);
  return exponent == 0 ? std::ldexp(mantissa / one, 1 - row.bias) : std::ldexp(1 + mantissa / one, exponent - row.bias);
}

// The nearest number's code, of two the even one; empty when that is beyond the largest.
std::string encode_small(const SmallRow& row, double value) {
  const double size = std::fabs(value);
  unsigned code = 0;
  while (code < row.largest && decoded(row, code + 1) <= size) ++code;
  const double below = size - decoded(row, code), above = decoded(row, code + 1) - size;
  if (above < below || (above == below && code % 2 == 1)) ++code;
  if (!(code <= row.largest)) return "";
  const bool negative = std::signbit(value) && (code != 0 || !row.name.ends_with("fnuz"));  // these have one zero only
  return std::string(1, static_cast<char>(code | (negative ? 0x80u : 0u)));
}

// A power of two, 2^(code - 127).
std::string encode_power(double value) {
  if (!(value > 0) || !std::isfinite(value)) return "";
  int exponent = 0;
  const double part = std::frexp(value, &exponent);  // in [0.5, 1)
  const int code = exponent - 1 + 127 + (part > 0.75);
  return code < 0 || code > 254 ? "" : std::string(1, static_cast<char>(code));
}

template <typename Rows>
auto row_of(const Rows& rows, std::string_view name) {
  const auto found = std::find_if(std::begin(rows), std::end(rows), [&](const auto& row) { return row.name == name; });
  return found == std::end(rows) ? nullptr : &*found;
}

}  // namespace

std::string encode_value(DType dtype, double value) {
  const DTypeRow& type = dtypes()[dtype];
  const auto narrow = static_cast<float>(value);
  if (type.name == "float64") return bytes_of_value(value);
  if (type.name == "float32") return std::isfinite(narrow) ? bytes_of_value(narrow) : "";
  if (type.name == "bfloat16")
    return std::isfinite(float_of_bfloat16(bfloat16_of_float(narrow))) ? bytes_of_value(bfloat16_of_float(narrow)) : "";
  if (type.name == "float16")
    return std::isfinite(float_of_half(half_of_float(narrow))) ? bytes_of_value(half_of_float(narrow)) : "";
  if (type.name == "complex64") return std::isfinite(narrow) ? bytes_of_value(narrow) + std::string(4, '\0') : "";
  if (type.name == "complex128") return bytes_of_value(value) + std::string(8, '\0');
  if (const WholeRow* row = row_of(kWhole, type.name)) {
    if (value != std::floor(value) || value < row->low || value >= row->end) return "";
    const uint64_t bits = value < 0 ? static_cast<uint64_t>(static_cast<int64_t>(value)) : static_cast<uint64_t>(value);
    return bytes_of_value(bits).substr(0, type.bits / 8);
  }
  if (const SmallRow* row = row_of(kSmall, type.name)) return encode_small(*row, value);
  if (type.name == "float8_e8m0fnu") return encode_power(value);
  return value == 0 ? std::string(std::max<size_t>(type.bits / 8, 1), '\0') : "";
}

}  // namespace tpplan
