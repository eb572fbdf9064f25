// A strided copy as a GPU's threads carry it out: the simplest form of it, in units that one thread moves at once.
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.h"

namespace tpplan {

inline constexpr int kPlanDims = 6;

// Unit number i of `units` goes from `from + offset` to `to + offset` (unit_offsets), in `unit`s of 1, 2, 4, 8 or 16
// bytes. A plain struct of fixed size, since it is an argument of a kernel.
struct StridedPlan {
  uint64_t unit = 1;                        // bytes; every address and stride below is a multiple of it
  uint64_t units = 0;                       // of the whole copy
  uint64_t run_units = 0;                   // units that stand one after the other on both sides
  uint64_t from_offset = 0, to_offset = 0;  // bytes
  int dims = 0;                             // around the run, outermost first; none has count 1
  uint64_t counts[kPlanDims] = {};
  uint64_t from_strides[kPlanDims] = {}, to_strides[kPlanDims] = {};  // bytes
};

// The plans that together are the copy `how` from address `from` to address `to`: one, unless more than kPlanDims dims
// remain after those that continue one another are merged. Empty when there is nothing to copy.
[[nodiscard]] std::vector<StridedPlan> plan_strided_copy(uint64_t to, uint64_t from, const StridedCopy& how);

}  // namespace tpplan
