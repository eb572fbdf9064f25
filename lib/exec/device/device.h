// The device that holds shards, CPU or GPU, as a table of functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exec/device/draw.h"
#include "sharding/dtype.h"
#include "sharding/placement.h"

namespace tpplan {

// A strided copy between two buffers: `run_bytes` contiguous bytes for each index into `counts`. Strides are in bytes.
struct StridedCopy {
  uint64_t run_bytes = 0;
  std::vector<uint64_t> counts, from_strides, to_strides;  // outermost first; empty: one contiguous copy
};

// y[m, n] (+)= a x b over float32, row major. `transpose_b`: b is [n, k], else [k, n]; `transpose_a`: a is [k, m], else
// [m, k].
struct Matmul {
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  bool accumulate = false;
};

// The functions of one kind of device. Pointers are device memory unless the name says host. The device must be current
// for the calling thread. Work is executed in order and is complete after `synchronize`. A function that fails throws
// TP8011 (diagnostics/fault.h) with the message of the device; `allocate` returns nullptr if memory is exhausted.
struct Device {
  std::string_view name;              // "cpu", "cuda"
  std::string_view memory;            // "host", "GPU", for messages
  bool is_host_memory;                // the CPU can access it: no staging, any number of threads
  void* (*allocate)(uint64_t bytes);  // zeroed
  void (*release)(void* memory);
  uint64_t (*free_bytes)();                   // bytes that allocate can return now
  void* (*allocate_staging)(uint64_t bytes);  // pinned host memory
  void (*release_staging)(void* memory);
  void (*from_host)(void* to, const void* from, uint64_t bytes);  // asynchronous if `from` is staging memory
  void (*to_host)(void* to, const void* from, uint64_t bytes);    // synchronous
  void (*copy)(void* to, const void* from, uint64_t bytes);
  void (*copy_strided)(void* to, const void* from, const StridedCopy& how);
  // to[i] = op(to[i], from[i]). Returns false for dtypes without arithmetic: all but float32, float64, float16,
  // bfloat16 and the integers.
  bool (*reduce)(void* to, const void* from, uint64_t elements, DType dtype, ReduceOp op);
  // Fills the box with random values, bit-identical to draw_element (exec/device/draw.h). `threads`: CPU threads.
  void (*draw)(void* to, const DrawBox& box, int threads);
  void (*multiply)(float* y, const float* a, const float* b, const Matmul& matmul);
  void (*use)(int index);  // makes GPU `index` current for the calling thread; no effect on the CPU
  void (*synchronize)();
  bool (*done)();     // true if synchronize would return at once; for waiting with a deadline
  void* (*stream)();  // the cudaStream_t of the calling thread; nullptr on the CPU
};

const Device& cpu_device();

// Returns the table of the GPU; nullptr with the reason if the program was built without CUDA or finds no driver or
// GPU.
[[nodiscard]] const Device* cuda_device(std::string& reason);

// The values of `--device`, a row each. `find` returns nullptr with the reason if this machine has no such device.
struct DeviceRow {
  std::string_view name;  // Device::name
  const Device* (*find)(std::string& reason);
};
[[nodiscard]] std::span<const DeviceRow> device_rows();

// Returns device memory for reading on the host: the memory itself if it is host memory, else a copy in `buffer`.
[[nodiscard]] const char* host_view(const Device& device, const void* memory, uint64_t bytes,
                                    std::vector<char>& buffer);

}  // namespace tpplan
