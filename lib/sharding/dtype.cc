#include "sharding/dtype.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace tpplan {
namespace {

using enum DTypeKind;

// clang-format off
constexpr DTypeRow kDTypes[] = {
    {"bfloat16", 16, Float, "BF16", "bf16"},
    {"float32", 32, Float, "F32", "f32"},
    {"float16", 16, Float, "F16", "f16"},
    {"float64", 64, Float, "F64", "f64"},
    {"float8_e4m3fn", 8, Float, "F8_E4M3", "f8E4M3FN", {3, 7, 0x7e}},
    {"float8_e5m2", 8, Float, "F8_E5M2", "f8E5M2", {2, 15, 0x7b}},
    {"float8_e4m3fnuz", 8, Float, "F8_E4M3FNUZ", "f8E4M3FNUZ", {3, 8, 0x7f}},
    {"float8_e5m2fnuz", 8, Float, "F8_E5M2FNUZ", "f8E5M2FNUZ", {2, 16, 0x7f}},
    {"float8_e8m0fnu", 8, Float, "F8_E8M0", "f8E8M0FNU"},
    {"float8_e4m3", 8, Float, "", "f8E4M3", {3, 7, 0x77}},
    {"float8_e3m4", 8, Float, "", "f8E3M4", {4, 3, 0x6f}},
    {"float8_e4m3b11fnuz", 8, Float, "", "f8E4M3B11FNUZ", {3, 11, 0x7f}},
    {"float4_e2m1fn_x2", 8, Float, "", "ui8"},
    {"float4_e2m1fn", 4, Float, "F4", "f4E2M1FN"},
    {"int8", 8, Signed, "I8", "i8"},
    {"uint8", 8, Unsigned, "U8", "ui8"},
    {"int16", 16, Signed, "I16", "i16"},
    {"uint16", 16, Unsigned, "U16", "ui16"},
    {"int32", 32, Signed, "I32", "i32"},
    {"uint32", 32, Unsigned, "U32", "ui32"},
    {"int64", 64, Signed, "I64", "i64"},
    {"uint64", 64, Unsigned, "U64", "ui64"},
    {"int4", 4, Signed, "", "i4"},
    {"uint4", 4, Unsigned, "", "ui4"},
    {"int2", 2, Signed, "", "i2"},
    {"uint2", 2, Unsigned, "", "ui2"},
    {"bool", 8, Bool, "BOOL", "i1"},
    {"complex32", 32, Complex, "", "complex<f16>"},
    {"complex64", 64, Complex, "C64", "complex<f32>"},
    {"complex128", 128, Complex, "", "complex<f64>"},
    {"qint8", 8, Quantised, "", "i8"},
    {"quint8", 8, Quantised, "", "ui8"},
    {"qint32", 32, Quantised, "", "i32"},
    {"float6_e2m3fn", 6, Float, "F6_E2M3", "f6E2M3FN"},
    {"float6_e3m2fn", 6, Float, "F6_E3M2", "f6E3M2FN"},
};
// clang-format on

bool find_by(std::string_view DTypeRow::*column, std::string_view name, DType& dtype) {
  const auto row = std::ranges::find(kDTypes, name, column);
  if (name.empty() || row == std::end(kDTypes)) return false;
  dtype = static_cast<DType>(row - std::begin(kDTypes));
  return true;
}

}  // namespace

std::span<const DTypeRow> dtypes() { return kDTypes; }

bool find_dtype(std::string_view name, DType& dtype) { return find_by(&DTypeRow::name, name, dtype); }

DType dtype_of(std::string_view name) {
  DType dtype = 0;
  return find_dtype(name, dtype) ? dtype : DType{0};
}

bool find_safetensors_dtype(std::string_view name, DType& dtype) {
  return find_by(&DTypeRow::safetensors, name, dtype);
}

std::string sent_dtypes_text(std::optional<DType> forward, std::optional<DType> backward, std::string_view separator) {
  std::string text;
  for (const auto& [way, type] : {std::pair{"forward", forward}, std::pair{"backward", backward}}) {
    if (type) text += std::string(separator) + way + " in " + std::string(kDTypes[*type].name);
  }
  return text;
}

uint64_t byte_size(DType dtype, uint64_t elements) {
  const unsigned __int128 bytes = (static_cast<unsigned __int128>(elements) * dtypes()[dtype].bits + 7) / 8;
  return bytes > kTooManyBytes ? kTooManyBytes : static_cast<uint64_t>(bytes);
}

}  // namespace tpplan
