// The work of one thread of a GPU kernel. Tests compile it for the CPU and run one thread after the other.
#pragma once

#include <cstdint>

#include "exec/device/device.h"
#include "exec/device/element_arithmetic.h"
#include "exec/device/strided_plan.h"

namespace tpplan {

// Sixteen bytes that one instruction moves.
struct alignas(16) Unit16 {
  uint64_t low, high;
};

// Computes the byte offsets of unit `i` on both sides. `Index` is the smallest type that holds plan.units, because
// 64-bit divisions are slow on a GPU.
template <typename Index>
TPPLAN_HOST_DEVICE void unit_offsets(const StridedPlan& plan, Index i, uint64_t& from, uint64_t& to) {
  Index run = i / static_cast<Index>(plan.run_units);
  const uint64_t in_run = (i - run * static_cast<Index>(plan.run_units)) * plan.unit;
  from = plan.from_offset + in_run;
  to = plan.to_offset + in_run;
  for (int dim = plan.dims - 1; dim >= 0; --dim) {
    const Index count = static_cast<Index>(plan.counts[dim]), outer = run / count;
    const uint64_t index = run - outer * count;
    from += index * plan.from_strides[dim];
    to += index * plan.to_strides[dim];
    run = outer;
  }
}

// Thread `thread` of `threads`; Unit is of plan.unit bytes.
template <typename Unit, typename Index>
TPPLAN_HOST_DEVICE void copy_units(void* to, const void* from, const StridedPlan& plan, uint64_t thread,
                                   uint64_t threads) {
  for (uint64_t i = thread; i < plan.units; i += threads) {
    uint64_t from_offset, to_offset;
    unit_offsets(plan, static_cast<Index>(i), from_offset, to_offset);
    *reinterpret_cast<Unit*>(static_cast<char*>(to) + to_offset) =
        *reinterpret_cast<const Unit*>(static_cast<const char*>(from) + from_offset);
  }
}

template <typename T>
TPPLAN_HOST_DEVICE void reduce_elements(T* to, const T* from, uint64_t elements, ReduceOp op, uint64_t thread,
                                        uint64_t threads) {
  for (uint64_t i = thread; i < elements; i += threads) to[i] = reduce_pair(to[i], from[i], op);
}

// Computes elements of y = a x b, summed over k in order: with -fmad=false bit-identical to a plain loop on the CPU.
TPPLAN_HOST_DEVICE inline void multiply_elements(float* y, const float* a, const float* b, const Matmul& p,
                                                 uint64_t thread, uint64_t threads) {
  const uint64_t m = static_cast<uint64_t>(p.m), n = static_cast<uint64_t>(p.n), k = static_cast<uint64_t>(p.k);
  for (uint64_t i = thread; i < m * n; i += threads) {
    const uint64_t row = i / n, column = i - row * n;
    float sum = p.accumulate ? y[i] : 0.0f;
    for (uint64_t l = 0; l < k; ++l) {
      const float left = p.transpose_a ? a[l * m + row] : a[row * k + l];
      sum += left * (p.transpose_b ? b[column * k + l] : b[l * n + column]);
    }
    y[i] = sum;
  }
}

}  // namespace tpplan
