// A strided copy for the threads of a GPU: simplified, in units that one instruction moves.
#pragma once

#include <cstdint>
#include <vector>

#include "exec/device/device.h"

namespace tpplan {

inline constexpr int kPlanDims = 6;

// Copies `units` units of 1, 2, 4, 8 or 16 bytes; unit_offsets returns where each goes. A plain struct of fixed size,
// because it is an argument of a kernel.
struct StridedPlan {
  uint64_t unit = 1;                        // bytes; every address and stride below is a multiple of it
  uint64_t units = 0;                       // of the whole copy
  uint64_t run_units = 0;                   // units that are contiguous on both sides
  uint64_t from_offset = 0, to_offset = 0;  // bytes
  int dims = 0;                             // dims around the contiguous units, outermost first; none has count 1
  uint64_t counts[kPlanDims] = {};
  uint64_t from_strides[kPlanDims] = {}, to_strides[kPlanDims] = {};  // bytes
};

// Splits the copy `how` from address `from` to address `to` into plans: one, unless more than kPlanDims dims remain
// after contiguous dims are merged. Empty if there is nothing to copy.
[[nodiscard]] std::vector<StridedPlan> plan_strided_copy(uint64_t to, uint64_t from, const StridedCopy& how);

}  // namespace tpplan
