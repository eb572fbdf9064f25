// Where shards live: the CPU's memory or a GPU's, as a table of functions. Everything above it works on either.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/draw.h"
#include "sharding/dtype.h"
#include "sharding/placement.h"

namespace tpplan {

// A strided copy between two blocks of memory: for each index of `counts` a run of `run_bytes` bytes. Strides are in
// bytes.
struct StridedCopy {
  uint64_t run_bytes = 0;
  std::vector<uint64_t> counts, from_strides, to_strides;  // outermost first; empty: one run
};

// y[m, n] (+)= a x b over float32, row major. `transpose_b`: b is [n, k], else [k, n]; `transpose_a`: a is [k, m], else
// [m, k].
struct Product {
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  bool accumulate = false;
};

// The functions of one kind of device. Memory that they take is the device's unless the name says host. All of them are
// called with the device current for the calling thread; work is ordered as called, and done at `synchronize`. A
// function that fails throws TP8011 (diagnostics/fault.h) with the device's own words; allocate returns nullptr when no
// memory is left.
struct Device {
  std::string_view name;    // "cpu", "cuda"
  std::string_view memory;  // whose memory it is, for people: "host", "GPU"
  bool is_host_memory;      // the CPU reads and writes it: nothing is staged, any number of threads work on it
  void* (*allocate)(uint64_t bytes);  // zeroed
  void (*release)(void* memory);
  uint64_t (*free_bytes)();                   // memory that allocate could give now
  void* (*allocate_staging)(uint64_t bytes);  // host memory that copies quickly to and from the device (pinned)
  void (*release_staging)(void* memory);
  void (*from_host)(void* to, const void* from, uint64_t bytes);  // asynchronous where `from` is staging
  void (*to_host)(void* to, const void* from, uint64_t bytes);    // done on return
  void (*copy)(void* to, const void* from, uint64_t bytes);
  void (*copy_strided)(void* to, const void* from, const StridedCopy& how);
  // to[i] = op(to[i], from[i]); false for a dtype that has no arithmetic here (all but float32, float64, float16,
  // bfloat16 and the integers).
  bool (*reduce)(void* to, const void* from, uint64_t elements, DType dtype, ReduceOp op);
  // Random values: what draw_element (device/draw.h) says of each, to the bit. `threads`: of the CPU.
  void (*draw)(void* to, const DrawBox& box, int threads);
  void (*multiply)(float* y, const float* a, const float* b, const Product& product);
  void (*use)(int index);  // makes GPU `index` current for the calling thread; nothing on the CPU
  void (*synchronize)();
  bool (*done)();     // whether synchronize would return at once; for those who wait with a deadline
  void* (*stream)();  // where the calling thread's work is queued, for libraries: a cudaStream_t; nullptr on the CPU
};

const Device& cpu_device();

// The GPU's table, or nullptr with the reason where the program was built without CUDA or finds no driver or GPU.
[[nodiscard]] const Device* cuda_device(std::string& reason);

// The devices that `--device` names, a row each; `find` gives nullptr with the reason where there is none here.
struct DeviceRow {
  std::string_view name;  // Device::name
  const Device* (*find)(std::string& reason);
};
[[nodiscard]] std::span<const DeviceRow> device_rows();

// Memory of the device as the host reads it: itself where it is the host's, else a copy in `buffer`.
[[nodiscard]] const char* host_view(const Device& device, const void* memory, uint64_t bytes,
                                    std::vector<char>& buffer);

}  // namespace tpplan
