#include "exec/shards/encode_value.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <iterator>

#include "exec/device/host_arithmetic.h"

namespace tpplan {
namespace {

template <typename T>
std::string bytes_of_value(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof value);
}

double decoded(const Float8Format& format, unsigned code) {
  const int exponent = static_cast<int>(code >> format.mantissa_bits);
  const auto mantissa = static_cast<double>(code & ((1u << format.mantissa_bits) - 1));
  const double one = std::ldexp(1.0, format.mantissa_bits);
  return exponent == 0 ? std::ldexp(mantissa / one, 1 - format.bias)
                       : std::ldexp(1 + mantissa / one, exponent - format.bias);
}

// Returns the code of the nearest number, ties to even; empty if it is out of range.
std::string encode_float8(const DTypeRow& type, double value) {
  const Float8Format& format = type.float8;
  const double size = std::fabs(value);
  unsigned code = 0;
  while (code < format.largest && decoded(format, code + 1) <= size) ++code;
  const double below = size - decoded(format, code), above = decoded(format, code + 1) - size;
  if (above < below || (above == below && code % 2 == 1)) ++code;
  if (!(code <= format.largest)) return "";
  const bool negative = std::signbit(value) && (code != 0 || !type.name.ends_with("fnuz"));  // these have one zero only
  return std::string(1, static_cast<char>(code | (negative ? 0x80u : 0u)));
}

// Encodes a power of two, 2^(code - 127).
std::string encode_power(double value) {
  if (!(value > 0) || !std::isfinite(value)) return "";
  int exponent = 0;
  const double part = std::frexp(value, &exponent);  // in [0.5, 1)
  const int code = exponent - 1 + 127 + (part > 0.75);
  return code < 0 || code > 254 ? "" : std::string(1, static_cast<char>(code));
}

// Encodes an integer in two's complement. @pre the dtype has whole bytes
std::string encode_integer(const DTypeRow& type, double value) {
  const bool is_signed = type.kind == DTypeKind::Signed;
  const double end = type.kind == DTypeKind::Bool ? 2 : std::ldexp(1.0, type.bits - is_signed);
  if (value != std::floor(value) || value < (is_signed ? -end : 0) || value >= end) return "";
  const uint64_t bits = value < 0 ? static_cast<uint64_t>(static_cast<int64_t>(value)) : static_cast<uint64_t>(value);
  return bytes_of_value(bits).substr(0, type.bits / 8);
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
  const bool is_integer =
      type.kind == DTypeKind::Signed || type.kind == DTypeKind::Unsigned || type.kind == DTypeKind::Bool;
  if (is_integer && type.bits >= 8) return encode_integer(type, value);
  if (type.float8.mantissa_bits != 0) return encode_float8(type, value);
  if (type.name == "float8_e8m0fnu") return encode_power(value);
  return value == 0 ? std::string(std::max<size_t>(type.bits / 8, 1), '\0') : "";
}

}  // namespace tpplan
