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
    {"int8", -0x1p7, 0x1p7},    {"uint8", 0, 0x1p8},   {"int16", -0x1p15, 0x1p15}, {"uint16", 0, 0x1p16}, {"int32", -0x1p31, 0x1p31},
    {"uint32", 0, 0x1p32},      {"int64", -0x1p63, 0x1p63}, {"uint64", 0, 0x1p64},      {"bool", 0, 2},
};

// Eight bits of floating point: what 1 is, and whether there is a 0.
struct SmallRow {
  std::string_view name;
  unsigned char one;
  bool has_zero;
};

constexpr SmallRow kSmall[] = {
    {"float8_e4m3fn", 0x38, true},  {"float8_e5m2", 0x3c, true},     {"float8_e4m3fnuz", 0x40, true},   {"float8_e5m2fnuz", 0x40, true},
    {"float8_e8m0fnu", 0x7f, false}, {"float8_e4m3", 0x38, true},    {"float8_e3m4", 0x30, true},       {"float8_e4m3b11fnuz", 0x58, true},
};

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
  if (type.name == "bfloat16") return std::isfinite(float_of_bfloat16(bfloat16_of_float(narrow))) ? bytes_of_value(bfloat16_of_float(narrow)) : "";
  if (type.name == "float16") return std::isfinite(float_of_half(half_of_float(narrow))) ? bytes_of_value(half_of_float(narrow)) : "";
  if (type.name == "complex64") return std::isfinite(narrow) ? bytes_of_value(narrow) + std::string(4, '\0') : "";
  if (type.name == "complex128") return bytes_of_value(value) + std::string(8, '\0');
  if (const WholeRow* row = row_of(kWhole, type.name)) {
    if (value != std::floor(value) || value < row->low || value >= row->end) return "";
    const uint64_t bits = value < 0 ? static_cast<uint64_t>(static_cast<int64_t>(value)) : static_cast<uint64_t>(value);
    return bytes_of_value(bits).substr(0, type.bits / 8);
  }
  if (const SmallRow* row = row_of(kSmall, type.name)) {
    if (value == 1) return std::string(1, static_cast<char>(row->one));
    return value == 0 && row->has_zero ? std::string(1, '\0') : "";
  }
  return value == 0 ? std::string(std::max<size_t>(type.bits / 8, 1), '\0') : "";
}

}  // namespace tpplan
