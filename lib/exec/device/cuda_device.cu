// The GPU device, host side; the kernels are in cuda_kernels.cu and cuda_draw.cu. Each host thread has its own stream.
#include <cuda_runtime.h>

#include <algorithm>
#include <memory>
#include <string>

#include "base/long_calls.h"
#include "diagnostics/fault.h"
#include "exec/device/cublas.h"
#include "exec/device/cuda_draw.h"
#include "exec/device/cuda_kernels.h"
#include "exec/device/device.h"

namespace tpplan {
namespace {

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  int index = -1;
  cudaGetDevice(&index);
  throw Fault{.code = Code::DeviceError,
              .message = "GPU " + std::to_string(index) + ": " + cudaGetErrorName(error) + " (" +
                         cudaGetErrorString(error) + ") in " + what,
              .help = "check nvidia-smi, and dmesg for Xid errors"};
}

// Makes a call that waits for the GPU, and registers it, because the GPU can hang (base/long_calls.h).
template <typename Call>
cudaError_t waited(const char* what, Call call) {
  thread_local std::string name;
  int index = -1;
  cudaGetDevice(&index);
  name = "GPU " + std::to_string(index);
  return make_registered_call(what, name, kNoOffset, call);
}

int current_device() {
  int index = 0;
  check(cudaGetDevice(&index), "cudaGetDevice");
  return index;
}

cudaStream_t queue() {
  struct Release {
    void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
  };
  thread_local std::unique_ptr<CUstream_st, Release> stream;
  thread_local int owner = -1;
  if (const int index = current_device(); index != owner) {
    cudaStream_t created = nullptr;
    check(
        waited("cudaStreamCreateWithFlags", [&] { return cudaStreamCreateWithFlags(&created, cudaStreamNonBlocking); }),
        "cudaStreamCreateWithFlags");
    stream.reset(created);
    owner = index;
  }
  return stream.get();
}

void synchronize() {
  cudaStream_t stream = queue();
  check(waited("cudaStreamSynchronize", [&] { return cudaStreamSynchronize(stream); }), "cudaStreamSynchronize");
}

bool done() {
  const cudaError_t state = cudaStreamQuery(queue());
  if (state == cudaErrorNotReady) return false;
  check(state, "cudaStreamQuery");
  return true;
}

void* stream() { return queue(); }

// Returns nullptr if memory is exhausted, and clears that error, so that the next call does not report it.
template <typename Call>
void* allocated(Call call, const char* what) {
  void* memory = nullptr;
  const cudaError_t error = waited(what, [&] { return call(&memory); });
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  check(error, what);
  return memory;
}

void* allocate(uint64_t bytes) {
  const uint64_t size = std::max<uint64_t>(bytes, 1);
  void* memory = allocated([&](void** at) { return cudaMalloc(at, size); }, "cudaMalloc");
  if (memory == nullptr) return nullptr;
  check(cudaMemsetAsync(memory, 0, size, queue()), "cudaMemsetAsync");
  synchronize();  // another thread can be the first to write
  return memory;
}

// Ignores errors, because destructors call it: a failed GPU reports its error in every later call, too, and one that
// can throw reports it.
void release(void* memory) {
  waited("cudaFree", [&] { return cudaFree(memory); });
}

uint64_t free_bytes() {
  size_t free = 0, total = 0;
  check(waited("cudaMemGetInfo", [&] { return cudaMemGetInfo(&free, &total); }), "cudaMemGetInfo");
  return free;
}

void* allocate_staging(uint64_t bytes) {
  return allocated([&](void** at) { return cudaHostAlloc(at, std::max<uint64_t>(bytes, 1), cudaHostAllocPortable); },
                   "cudaHostAlloc");
}

void release_staging(void* memory) {
  waited("cudaFreeHost", [&] { return cudaFreeHost(memory); });
}

void from_host(void* to, const void* from, uint64_t bytes) {
  if (bytes == 0) return;
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, queue()), "cudaMemcpyAsync to the GPU");
  cudaPointerAttributes attributes = {};
  check(cudaPointerGetAttributes(&attributes, from), "cudaPointerGetAttributes");
  if (attributes.type != cudaMemoryTypeHost) synchronize();  // not pinned: the caller may overwrite it now
}

void to_host(void* to, const void* from, uint64_t bytes) {
  if (bytes == 0) return;
  cudaStream_t stream = queue();  // a copy to memory that is not pinned waits itself
  check(waited("cudaMemcpyAsync", [&] { return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream); }),
        "cudaMemcpyAsync from the GPU");
  synchronize();
}

void copy(void* to, const void* from, uint64_t bytes) {
  if (bytes == 0) return;
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, queue()), "cudaMemcpyAsync");
}

void copy_strided(void* to, const void* from, const StridedCopy& how) {
  for (const StridedPlan& plan :
       plan_strided_copy(reinterpret_cast<uintptr_t>(to), reinterpret_cast<uintptr_t>(from), how)) {
    if (plan.dims == 0) {  // contiguous
      copy(static_cast<char*>(to) + plan.to_offset, static_cast<const char*>(from) + plan.from_offset,
           plan.units * plan.unit);
      continue;
    }
    check(copy_on_gpu(to, from, plan, queue()), "the strided copy kernel");
  }
}

bool reduce(void* to, const void* from, uint64_t elements, DType dtype, ReduceOp op) {
  cudaError_t error = cudaSuccess;
  if (!reduce_on_gpu(to, from, elements, dtype, op, queue(), error)) return false;
  check(error, "the reduction kernel");
  return true;
}

void multiply(float* y, const float* a, const float* b, const Matmul& p) {
  if (p.m == 0 || p.n == 0) return;
  if (p.k != 0 && multiply_by_cublas(queue(), current_device(), y, a, b, p)) return;
  check(multiply_on_gpu(y, a, b, p, queue()), "the matmul kernel");
}

void draw(void* to, const DrawBox& box, int) { check(draw_on_gpu(to, box, queue()), "the random number kernel"); }

void use(int index) {
  int count = 0;
  check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  if (count == 1) index = 0;  // the launcher can have assigned each rank one GPU
  if (index < 0 || index >= count) {
    throw Fault{.code = Code::DeviceUnavailable,
                .message = "GPU " + std::to_string(index) + " is requested, but the number of visible GPUs is " +
                           std::to_string(count),
                .help = "start one rank per GPU, or check CUDA_VISIBLE_DEVICES"};
  }
  check(waited("cudaSetDevice", [&] { return cudaSetDevice(index); }), "cudaSetDevice");
}

}  // namespace

const Device* cuda_device(std::string& reason) {
  static const Device device = {.name = "cuda",
                                .memory = "GPU",
                                .is_host_memory = false,
                                .allocate = allocate,
                                .release = release,
                                .free_bytes = free_bytes,
                                .allocate_staging = allocate_staging,
                                .release_staging = release_staging,
                                .from_host = from_host,
                                .to_host = to_host,
                                .copy = copy,
                                .copy_strided = copy_strided,
                                .reduce = reduce,
                                .draw = draw,
                                .multiply = multiply,
                                .use = use,
                                .synchronize = synchronize,
                                .done = done,
                                .stream = stream};
  int driver = 0, count = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
    reason = "no NVIDIA driver is installed (libcuda.so.1)";
    return nullptr;
  }
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess || count == 0) {
    reason = std::string("cannot use a GPU: ") +
             (error != cudaSuccess ? cudaGetErrorString(error) : "the driver finds no GPU");
    return nullptr;
  }
  return &device;
}

}  // namespace tpplan
