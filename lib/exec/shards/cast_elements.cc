#include "exec/shards/cast_elements.h"

#include <cstring>
#include <tuple>
#include <type_traits>

#include "exec/device/element_arithmetic.h"

namespace tpplan {
namespace {

template <typename To, typename From>
To cast_one(From value) {
  if constexpr (std::is_same_v<From, To>)
    return value;
  else if constexpr (std::is_class_v<To>)
    return To::of(static_cast<float>(value));
  else
    return static_cast<To>(static_cast<std::conditional_t<std::is_class_v<From>, float, From>>(value));
}

// Bits of the mantissa, including the leading one, and of the exponent.
struct Precision {
  int mantissa = 0, exponent = 0;
};

Precision precision_of(DType dtype) {
  switch (dtypes()[dtype].bits) {
    case 64:
      return {53, 11};
    case 32:
      return {24, 8};
    default:
      return dtypes()[dtype].name == "float16" ? Precision{11, 5} : Precision{8, 8};
  }
}

// Calls `visit` with a value of the C++ type. @pre the dtype is floating point
template <typename Visit>
void visit_float(DType dtype, Visit visit) {
  std::ignore = visit_arithmetic_type(dtypes()[dtype].name, [&](auto zero) {
    if constexpr (!std::is_integral_v<decltype(zero)>) visit(zero);
  });
}

}  // namespace

bool can_cast(DType from, DType to) { return from == to || (is_compute_dtype(from) && is_compute_dtype(to)); }

bool is_lossy_cast(DType from, DType to) {
  const Precision a = precision_of(from), b = precision_of(to);
  return from != to && (b.mantissa < a.mantissa || b.exponent < a.exponent);
}

void cast_elements(void* to, DType to_type, const void* from, DType from_type, uint64_t count) {
  visit_float(from_type, [&](auto from_zero) {
    visit_float(to_type, [&](auto to_zero) {
      decltype(from_zero) value;
      for (uint64_t i = 0; i < count; ++i) {
        std::memcpy(&value, static_cast<const char*>(from) + i * sizeof value, sizeof value);
        const decltype(to_zero) cast = cast_one<decltype(to_zero)>(value);
        std::memcpy(static_cast<char*>(to) + i * sizeof cast, &cast, sizeof cast);
      }
    });
  });
}

}  // namespace tpplan
