// Random values on a GPU.
#pragma once

#include <cuda_runtime.h>

#include "exec/device/draw.h"

namespace tpplan {

// Queues the box's values at `to`, which is memory of the GPU.
[[nodiscard]] cudaError_t draw_on_gpu(void* to, const DrawBox& box, cudaStream_t stream);

}  // namespace tpplan
