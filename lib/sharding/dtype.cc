#include "sharding/dtype.h"

namespace tpplan {

const std::vector<DTypeRow>& dtypes() {
  static const std::vector<DTypeRow> rows = {
      {"bfloat16", 16},
      {"float32", 32},
      {"float16", 16},
      {"float64", 64},
      {"float8_e4m3fn", 8},
      {"float8_e5m2", 8},
      {"float8_e4m3fnuz", 8},
      {"float8_e5m2fnuz", 8},
      {"float8_e8m0fnu", 8},
      {"float8_e4m3", 8},
      {"float8_e3m4", 8},
      {"float8_e4m3b11fnuz", 8},
      {"float4_e2m1fn_x2", 8},
      {"float4_e2m1fn", 4},
      {"int8", 8},
      {"uint8", 8},
      {"int16", 16},
      {"uint16", 16},
      {"int32", 32},
      {"uint32", 32},
      {"int64", 64},
      {"uint64", 64},
      {"int4", 4},
      {"uint4", 4},
      {"int2", 2},
      {"uint2", 2},
      {"bool", 8},
      {"complex32", 32},
      {"complex64", 64},
      {"complex128", 128},
      {"qint8", 8},
      {"quint8", 8},
      {"qint32", 32},
      {"float6_e2m3fn", 6},
      {"float6_e3m2fn", 6},
  };
  return rows;
}

bool find_dtype(std::string_view name, DType& dtype) {
  const std::vector<DTypeRow>& rows = dtypes();
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].name == name) {
      dtype = static_cast<DType>(i);
      return true;
    }
  }
  return false;
}

uint64_t byte_size(DType dtype, uint64_t elements) {
  const unsigned __int128 bytes = (static_cast<unsigned __int128>(elements) * dtypes()[dtype].bits + 7) / 8;
  return bytes > kTooManyBytes ? kTooManyBytes : static_cast<uint64_t>(bytes);
}

}  // namespace tpplan
