// cuBLAS, found at run time: float32 products on a GPU, every term in float32 (no TF32).
#pragma once

#include <string>

#include "device/device.h"

namespace tpplan {

// What of cuBLAS the machine has. `library` is the file that was opened, empty when there is none; then `reason` says
// why.
struct CublasLibrary {
  std::string library, reason;
  std::string version;  // "13.0.2"
};

// Opens TPPLAN_CUBLAS_LIBRARY, or libcublas.so.13, .12, .11; once.
const CublasLibrary& cublas_library();

// Queues the product on `stream` (a cudaStream_t of the current device). False when there is no cuBLAS, or when a size
// does not fit its 32-bit arguments; throws std::runtime_error when cuBLAS fails.
[[nodiscard]] bool multiply_by_cublas(void* stream, int device_index, float* y, const float* a, const float* b,
                                      const Product& product);

}  // namespace tpplan
