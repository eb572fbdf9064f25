// Sums of bytes with overflow detection.
#pragma once

#include <cstdint>

namespace tpplan {

struct CheckedSum {
  uint64_t value = 0;
  bool overflow = false;  // `value` is invalid
};

inline void add(CheckedSum& sum, uint64_t a, uint64_t times) {
  uint64_t product = 0;
  sum.overflow |= __builtin_mul_overflow(a, times, &product) || __builtin_add_overflow(sum.value, product, &sum.value);
}

}  // namespace tpplan
