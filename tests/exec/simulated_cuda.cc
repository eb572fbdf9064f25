// Simulated GPUs under the code that drives real ones (lib/exec/device/cuda_device.cu). Their memory is host memory
// that is assigned to a GPU. Queued work is executed as late as CUDA permits. Using another GPU's memory is an error,
// although a real GPU would only be slower. It tests how tpplan calls CUDA, not CUDA itself.
//   SIMULATED_GPUS=4                              number of GPUs; default 1
//   SIMULATED_CUDA_FAULT=call=17,rank=1           every call from the 17th on fails, as after an illegal access; with
//                                                 rank only on that rank
//   SIMULATED_CUDA_FAULT=call=17,kind=hang        the 17th call never returns
#include <cuda_runtime.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "exec/device/cublas.h"
#include "exec/device/cuda_checks.h"
#include "exec/device/cuda_draw.h"
#include "exec/device/cuda_kernels.h"
#include "exec/device/kernel_bodies.h"

struct CUstream_st {
  int device = 0;
  int asked = 0;  // calls of cudaStreamQuery since work was queued
  std::deque<std::function<void()>> work;
};

namespace {

constexpr int kHost = -1;
constexpr size_t kMemory = size_t{1} << 30;

struct Block {
  size_t bytes = 0;
  int device = kHost;
};

// never destroyed, because threads may outlive main
struct Simulation {
  std::recursive_mutex mutex;
  std::map<const char*, Block> blocks;
  std::set<CUstream_st*> streams;
  std::atomic<int> calls = 0;
};

Simulation& simulation() {
  static auto* const all = new Simulation;
  return *all;
}

thread_local int current = 0;

int number_in(const char* variable, const char* name, int otherwise) {
  const char* text = std::getenv(variable);
  const char* at = text != nullptr ? std::strstr(text, name) : nullptr;
  return at != nullptr ? std::atoi(at + std::strlen(name)) : otherwise;
}

int gpus() {
  const char* count = std::getenv("SIMULATED_GPUS");
  return count != nullptr ? std::atoi(count) : 1;
}

int own_rank() {
  for (const char* name : {"RANK", "OMPI_COMM_WORLD_RANK"}) {
    if (const char* rank = std::getenv(name); rank != nullptr) return std::atoi(rank);
  }
  return 0;
}

// Starts a call and returns the error that SIMULATED_CUDA_FAULT requests.
cudaError_t begin() {
  const int wanted = number_in("SIMULATED_CUDA_FAULT", "call=", 0);
  if (wanted == 0 || number_in("SIMULATED_CUDA_FAULT", "rank=", own_rank()) != own_rank()) return cudaSuccess;
  const int call = ++simulation().calls;
  const bool hangs = std::strstr(std::getenv("SIMULATED_CUDA_FAULT"), "kind=hang") != nullptr;
  if (hangs && call == wanted) {
    for (;;) pause();
  }
  return call >= wanted && !hangs ? cudaErrorIllegalAddress : cudaSuccess;
}

// Returns the allocation that contains this address; nullptr if it is none of ours.
const Block* block_of(const void* memory) {
  const char* at = static_cast<const char*>(memory);
  auto next = simulation().blocks.upper_bound(at);
  if (next == simulation().blocks.begin()) return nullptr;
  --next;
  return at < next->first + next->second.bytes ? &next->second : nullptr;
}

cudaError_t reject(const std::string& why) {
  std::fprintf(stderr, "simulated CUDA: %s\n", why.c_str());
  return cudaErrorInvalidValue;
}

// Returns an error unless the stream and the memory belong to the current GPU.
cudaError_t check_memory(const void* memory, CUstream_st* stream) {
  if (stream == nullptr || stream->device != current) return reject("a stream of another GPU");
  const Block* block = block_of(memory);
  if (block == nullptr || block->device == kHost) return reject("memory that is no GPU's");
  if (block->device != current)
    return reject("memory of GPU " + std::to_string(block->device) + " used on GPU " + std::to_string(current));
  return cudaSuccess;
}

void queue(CUstream_st* stream, std::function<void()> work) {
  stream->work.push_back(std::move(work));
  stream->asked = 0;
}

void do_all(CUstream_st* stream) {
  for (; !stream->work.empty(); stream->work.pop_front()) stream->work.front()();
}

cudaError_t take(void** memory, size_t bytes, int device) {
  char* block = static_cast<char*>(std::malloc(bytes));
  std::memset(block, 0xAB, bytes);
  simulation().blocks[block] = {bytes, device};
  *memory = block;
  return cudaSuccess;
}

// Frees an allocation. Like CUDA, first completes all queued work, which could still use it.
cudaError_t give_back(void* memory, bool is_host) {
  if (memory == nullptr) return cudaSuccess;
  const auto block = simulation().blocks.find(static_cast<const char*>(memory));
  if (block == simulation().blocks.end() || (block->second.device == kHost) != is_host)
    return reject("memory is freed that was not allocated");
  for (CUstream_st* stream : simulation().streams) do_all(stream);
  std::memset(memory, 0xCD, block->second.bytes);
  simulation().blocks.erase(block);
  std::free(memory);
  return cudaSuccess;
}

}  // namespace

#define BEGIN                                                                \
  if (const cudaError_t error = begin(); error != cudaSuccess) return error; \
  const std::lock_guard lock(simulation().mutex)

const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaErrorIllegalAddress ? "cudaErrorIllegalAddress" : "cudaErrorInvalidValue";
}
const char* cudaGetErrorString(cudaError_t) { return "the simulation's error"; }
cudaError_t cudaGetLastError() { return begin(); }
cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = gpus();
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* index) {
  *index = current;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int index) {
  BEGIN;
  if (index >= gpus()) return cudaErrorInvalidDevice;
  current = index;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  BEGIN;
  *stream = new CUstream_st{.device = current};
  simulation().streams.insert(*stream);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  BEGIN;
  do_all(stream);
  simulation().streams.erase(stream);
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  BEGIN;
  if (stream->device != current) return reject("a stream of another GPU");
  do_all(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  BEGIN;
  if (!stream->work.empty() && ++stream->asked < 3) return cudaErrorNotReady;
  do_all(stream);
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** memory, size_t bytes) {
  BEGIN;
  return take(memory, bytes, current);
}
cudaError_t cudaFree(void* memory) {
  BEGIN;
  return give_back(memory, false);
}
cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned) {
  BEGIN;
  return take(memory, bytes, kHost);
}
cudaError_t cudaFreeHost(void* memory) {
  BEGIN;
  return give_back(memory, true);
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  BEGIN;
  *free = *total = kMemory;
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t stream) {
  BEGIN;
  const cudaError_t error = check_memory(memory, stream);
  if (error == cudaSuccess) queue(stream, [=] { std::memset(memory, value, bytes); });
  return error;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  BEGIN;
  cudaError_t error = kind == cudaMemcpyDeviceToHost ? cudaSuccess : check_memory(to, stream);
  if (error == cudaSuccess && kind != cudaMemcpyHostToDevice) error = check_memory(from, stream);
  if (error != cudaSuccess) return error;
  const bool is_pinned = block_of(kind == cudaMemcpyDeviceToHost ? to : from) != nullptr;
  // A copy from pageable memory reads it immediately but arrives later.
  if (kind == cudaMemcpyHostToDevice && !is_pinned) {
    const auto* begins = static_cast<const char*>(from);
    queue(stream,
          [to, kept = std::vector<char>(begins, begins + bytes)] { std::memcpy(to, kept.data(), kept.size()); });
    return cudaSuccess;
  }
  queue(stream, [=] { std::memcpy(to, from, bytes); });
  if (kind == cudaMemcpyDeviceToHost && !is_pinned) do_all(stream);
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* memory) {
  BEGIN;
  const Block* block = block_of(memory);
  attributes->type = block == nullptr         ? cudaMemoryTypeUnregistered
                     : block->device == kHost ? cudaMemoryTypeHost
                                              : cudaMemoryTypeDevice;
  return cudaSuccess;
}

namespace tpplan {

cudaError_t copy_on_gpu(void* to, const void* from, const StridedPlan& plan, cudaStream_t stream) {
  BEGIN;
  cudaError_t error = check_memory(to, stream);
  if (error == cudaSuccess) error = check_memory(from, stream);
  if (error != cudaSuccess) return error;
  queue(stream, [=] {
    if (plan.unit == 1) copy_units<uint8_t, uint64_t>(to, from, plan, 0, 1);
    if (plan.unit == 2) copy_units<uint16_t, uint64_t>(to, from, plan, 0, 1);
    if (plan.unit == 4) copy_units<uint32_t, uint64_t>(to, from, plan, 0, 1);
    if (plan.unit == 8) copy_units<uint64_t, uint64_t>(to, from, plan, 0, 1);
    if (plan.unit == 16) copy_units<Unit16, uint64_t>(to, from, plan, 0, 1);
  });
  return cudaSuccess;
}

bool reduce_on_gpu(void* to, const void* from, uint64_t elements, DType dtype, ReduceOp op, cudaStream_t stream,
                   cudaError_t& error) {
  return visit_arithmetic_type(dtypes()[dtype].name, [&](auto zero) {
    using T = decltype(zero);
    if ((error = begin()) != cudaSuccess || elements == 0) return;
    const std::lock_guard lock(simulation().mutex);
    if ((error = check_memory(to, stream)) != cudaSuccess || (error = check_memory(from, stream)) != cudaSuccess)
      return;
    queue(stream, [=] { reduce_elements(static_cast<T*>(to), static_cast<const T*>(from), elements, op, 0, 1); });
  });
}

cudaError_t multiply_on_gpu(float* y, const float* a, const float* b, const Matmul& product, cudaStream_t stream) {
  BEGIN;
  const cudaError_t error = check_memory(y, stream);
  if (error == cudaSuccess) queue(stream, [=] { multiply_elements(y, a, b, product, 0, 1); });
  return error;
}

cudaError_t draw_on_gpu(void* to, const DrawBox& box, cudaStream_t stream) {
  BEGIN;
  const cudaError_t error = check_memory(to, stream);
  if (error == cudaSuccess) queue(stream, [=] { cpu_device().draw(to, box, 1); });
  return error;
}

std::vector<Check> cuda_checks() { return {{.name = "CUDA", .found = "simulated"}}; }

}  // namespace tpplan

#include "exec/device/cuda_device.cu"
