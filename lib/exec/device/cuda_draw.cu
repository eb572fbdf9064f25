// Random values on a GPU: one thread for each element, with the arithmetic of exec/device/draw.h.
#include <algorithm>

#include "exec/device/cuda_draw.h"

namespace tpplan {
namespace {

constexpr uint64_t kThreads = 256, kMaxBlocks = 16384;  // of one launch; each thread loops over the remaining elements

__global__ void draw_kernel(void* to, const DrawBox box) {
  const uint64_t threads = static_cast<uint64_t>(gridDim.x) * blockDim.x;
  for (uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < box.elements; i += threads) {
    const uint64_t row = i / box.run;
    uint64_t at, index;
    row_offsets(box, row, at, index);
    draw_element(box, index + (i - row * box.run), to, at + (i - row * box.run));
  }
}

}  // namespace

cudaError_t draw_on_gpu(void* to, const DrawBox& box, cudaStream_t stream) {
  if (box.elements == 0) return cudaSuccess;
  const uint64_t blocks = std::min((box.elements + kThreads - 1) / kThreads, kMaxBlocks);
  draw_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(to, box);
  return cudaGetLastError();
}

}  // namespace tpplan
