// Element types by their torch names; JAX's and Keras' names are the same where both have the type.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace tpplan {

// Index into dtypes().
using DType = uint8_t;

struct DTypeRow {
  std::string_view name;
  uint8_t bits;  // of one stored element
};

const std::vector<DTypeRow>& dtypes();

// False when there is no dtype of that name.
bool find_dtype(std::string_view name, DType& dtype);

inline constexpr uint64_t kTooManyBytes = 0xffffffffffffffffu;

// Bytes that `elements` of this type take, rounded up to whole bytes; kTooManyBytes where 64 bits do not hold them.
uint64_t byte_size(DType dtype, uint64_t elements);

}  // namespace tpplan
