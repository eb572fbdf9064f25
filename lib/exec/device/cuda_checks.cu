// Checks of this machine's GPUs and their libraries.
#include <cuda_runtime.h>

#include <cstdio>

#include "exec/device/cublas.h"
#include "exec/device/cuda_checks.h"
#include "exec/device/nccl_library.h"

namespace tpplan {
namespace {

// 13000 is CUDA 13.0
std::string cuda_version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string gib(size_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f GiB", static_cast<double>(bytes) / (1 << 30));
  return text;
}

Check driver_check(bool& has_driver) {
  int version = 0;
  has_driver = cudaDriverGetVersion(&version) == cudaSuccess && version != 0;
  if (!has_driver) {
    return {.name = "NVIDIA driver",
            .state = CheckState::Absent,
            .found = "no driver (libcuda.so.1)",
            .remedy = "install NVIDIA's driver to run on GPUs; the CPU needs none"};
  }
  int runtime = 0;
  cudaRuntimeGetVersion(&runtime);
  const std::string found =
      "for CUDA up to " + cuda_version_text(version) + "; this program was built with " + cuda_version_text(runtime);
  if (version / 1000 >= runtime / 1000) return {.name = "NVIDIA driver", .found = found};
  return {.name = "NVIDIA driver",
          .state = CheckState::Missing,
          .found = found,
          .remedy = "install a newer driver, or build with an older CUDA toolkit"};
}

Check gpu_check(int index) {
  const std::string name = "GPU " + std::to_string(index);
  cudaDeviceProp properties = {};
  cudaError_t error = cudaGetDeviceProperties(&properties, index);
  size_t free = 0, total = 0;
  if (error == cudaSuccess) error = cudaSetDevice(index);
  if (error == cudaSuccess) error = cudaMemGetInfo(&free, &total);
  if (error != cudaSuccess) {
    cudaGetLastError();
    return {.name = name,
            .state = CheckState::Missing,
            .found = std::string(cudaGetErrorName(error)) + ": " + cudaGetErrorString(error),
            .remedy = "check nvidia-smi: another process may occupy the GPU"};
  }
  return {.name = name,
          .found = std::string(properties.name) + ", " + gib(total) + " (" + gib(free) + " free), compute capability " +
                   std::to_string(properties.major) + "." + std::to_string(properties.minor)};
}

Check nccl_check() {
  const NcclLibrary& nccl = nccl_library();
  if (!nccl.library.empty())
    return {.name = std::string(nccl.name), .found = nccl_version_text(nccl.version) + " (" + nccl.library + ")"};
  return {.name = "NCCL",
          .state = CheckState::Absent,
          .found = nccl.reason,
          .remedy = "install libnccl2 for --backend nccl, or set TPPLAN_NCCL_LIBRARY to the file"};
}

Check cublas_check() {
  const CublasLibrary& cublas = cublas_library();
  if (!cublas.library.empty()) return {.name = "cuBLAS", .found = cublas.version + " (" + cublas.library + ")"};
  return {.name = "cuBLAS",
          .state = CheckState::Absent,
          .found = cublas.reason + ": matmuls use a slower built-in kernel",
          .remedy = "install libcublas for fast matmuls in `run`, or set TPPLAN_CUBLAS_LIBRARY to the file"};
}

}  // namespace

std::vector<Check> cuda_checks() {
  bool has_driver = false;
  std::vector<Check> checks = {driver_check(has_driver)};
  int count = 0;
  const cudaError_t error = has_driver ? cudaGetDeviceCount(&count) : cudaSuccess;
  if (has_driver && count == 0) {
    checks.push_back({.name = "GPU",
                      .state = CheckState::Missing,
                      .found = error != cudaSuccess ? cudaGetErrorString(error) : "the driver finds no GPU",
                      .remedy = "check nvidia-smi and CUDA_VISIBLE_DEVICES"});
  }
  int current = 0;
  cudaGetDevice(&current);
  for (int index = 0; index < count; ++index) checks.push_back(gpu_check(index));
  if (count > 0) cudaSetDevice(current);
  checks.push_back(nccl_check());
  checks.push_back(cublas_check());
  return checks;
}

}  // namespace tpplan
