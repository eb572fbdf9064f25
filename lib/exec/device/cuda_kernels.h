// GPU kernels: each function queues its work on a stream of the current device.
#pragma once

#include <cuda_runtime.h>

#include "exec/device/device.h"
#include "exec/device/strided_plan.h"

namespace tpplan {

[[nodiscard]] cudaError_t copy_on_gpu(void* to, const void* from, const StridedPlan& plan, cudaStream_t stream);

// Returns false for a dtype without arithmetic (Device::reduce).
[[nodiscard]] bool reduce_on_gpu(void* to, const void* from, uint64_t elements, DType dtype, ReduceOp op,
                                 cudaStream_t stream, cudaError_t& error);

[[nodiscard]] cudaError_t multiply_on_gpu(float* y, const float* a, const float* b, const Matmul& matmul,
                                          cudaStream_t stream);

}  // namespace tpplan
