#include <algorithm>

#include "exec/device/cuda_kernels.h"
#include "exec/device/kernel_bodies.h"

namespace tpplan {
namespace {

constexpr uint64_t kThreads = 256, kMaxBlocks = 16384;  // of one launch; each thread loops over the remaining units

unsigned blocks_for(uint64_t items) {
  return static_cast<unsigned>(std::clamp<uint64_t>((items + kThreads - 1) / kThreads, 1, kMaxBlocks));
}

__device__ uint64_t thread_number() { return uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ uint64_t thread_count() { return uint64_t{gridDim.x} * blockDim.x; }

template <typename Unit>
__global__ void copy_kernel(void* to, const void* from, StridedPlan plan) {
  if (plan.units <= UINT32_MAX) {
    copy_units<Unit, uint32_t>(to, from, plan, thread_number(), thread_count());
  } else {
    copy_units<Unit, uint64_t>(to, from, plan, thread_number(), thread_count());
  }
}

template <typename T>
__global__ void reduce_kernel(T* to, const T* from, uint64_t elements, ReduceOp op) {
  reduce_elements(to, from, elements, op, thread_number(), thread_count());
}

__global__ void multiply_kernel(float* y, const float* a, const float* b, Matmul matmul) {
  multiply_elements(y, a, b, matmul, thread_number(), thread_count());
}

using CopyKernel = void (*)(void*, const void*, StridedPlan);

CopyKernel copy_kernel_of(uint64_t unit) {
  switch (unit) {
    case 1:
      return copy_kernel<uint8_t>;
    case 2:
      return copy_kernel<uint16_t>;
    case 4:
      return copy_kernel<uint32_t>;
    case 8:
      return copy_kernel<uint64_t>;
    default:
      return copy_kernel<Unit16>;
  }
}

}  // namespace

cudaError_t copy_on_gpu(void* to, const void* from, const StridedPlan& plan, cudaStream_t stream) {
  copy_kernel_of(plan.unit)<<<blocks_for(plan.units), kThreads, 0, stream>>>(to, from, plan);
  return cudaGetLastError();
}

bool reduce_on_gpu(void* to, const void* from, uint64_t elements, DType dtype, ReduceOp op, cudaStream_t stream,
                   cudaError_t& error) {
  return visit_arithmetic_type(dtypes()[dtype].name, [&](auto zero) {
    using T = decltype(zero);
    if (elements == 0) return;
    reduce_kernel<T>
        <<<blocks_for(elements), kThreads, 0, stream>>>(static_cast<T*>(to), static_cast<const T*>(from), elements, op);
    error = cudaGetLastError();
  });
}

cudaError_t multiply_on_gpu(float* y, const float* a, const float* b, const Matmul& p, cudaStream_t stream) {
  multiply_kernel<<<blocks_for(static_cast<uint64_t>(p.m) * static_cast<uint64_t>(p.n)), kThreads, 0, stream>>>(y, a, b,
                                                                                                                p);
  return cudaGetLastError();
}

}  // namespace tpplan
