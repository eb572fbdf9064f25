// cuBLAS, found at run time: float32 matmuls on a GPU, without TF32.
#pragma once

#include <string>

#include "exec/device/device.h"

namespace tpplan {

// The cuBLAS of this machine. `library` is the file that was opened; if it is empty, `reason` has the cause.
struct CublasLibrary {
  std::string library, reason;
  std::string version;  // "13.0.2"
};

// Opens TPPLAN_CUBLAS_LIBRARY, or libcublas.so.13, .12, .11; once.
const CublasLibrary& cublas_library();

// Queues the matmul on `stream` (a cudaStream_t of the current device). Returns false if there is no cuBLAS or a size
// exceeds 32 bits. Throws std::runtime_error if cuBLAS fails.
[[nodiscard]] bool multiply_by_cublas(void* stream, int device_index, float* y, const float* a, const float* b,
                                      const Matmul& matmul);

}  // namespace tpplan
