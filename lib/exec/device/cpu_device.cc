// The CPU device: the reference with which other devices are compared.
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "exec/device/cgroup_memory.h"
#include "exec/device/device.h"
#include "exec/device/draw_on_host.h"
#include "exec/device/host_arithmetic.h"

namespace tpplan {
namespace {

// Memory is mapped, so that the kernel provides zeroed pages and reclaims them at once. The length is stored before it.
constexpr uint64_t kHead = 4096;

void* allocate(uint64_t bytes) {
  if (bytes > UINT64_MAX - kHead) return nullptr;
  void* block = mmap(nullptr, bytes + kHead, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED) return nullptr;
  if (bytes >= (uint64_t{4} << 20)) madvise(block, bytes + kHead, MADV_HUGEPAGE);
  *static_cast<uint64_t*>(block) = bytes + kHead;
  return static_cast<char*>(block) + kHead;
}

void release(void* memory) {
  if (memory == nullptr) return;
  void* block = static_cast<char*>(memory) - kHead;
  munmap(block, *static_cast<uint64_t*>(block));
}

// Returns the bytes left under this process's limit of address space (ulimit -v).
uint64_t addresses_left() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return UINT64_MAX;
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const uint64_t used = pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return limit.rlim_cur > used ? limit.rlim_cur - used : 0;
}

// Returns the minimum of the memory available without swapping, the control groups' limits and the process's limit.
uint64_t free_bytes() {
  uint64_t free = UINT64_MAX;
  std::ifstream meminfo("/proc/meminfo");
  for (std::string word; meminfo >> word;) {
    if (word != "MemAvailable:") continue;
    meminfo >> free;
    free *= 1024;
    break;
  }
  return std::min({free, memory_available_in_cgroups(), addresses_left()});
}

void copy(void* to, const void* from, uint64_t bytes) {
  if (bytes != 0) std::memcpy(to, from, bytes);
}

void copy_dim(char* to, const char* from, const StridedCopy& how, size_t dim) {
  if (dim == how.counts.size()) {
    std::memcpy(to, from, how.run_bytes);
    return;
  }
  for (uint64_t i = 0; i < how.counts[dim]; ++i)
    copy_dim(to + i * how.to_strides[dim], from + i * how.from_strides[dim], how, dim + 1);
}

void copy_strided(void* to, const void* from, const StridedCopy& how) {
  if (how.run_bytes != 0) copy_dim(static_cast<char*>(to), static_cast<const char*>(from), how, 0);
}

// Returns the sum of a[i] b[i], in eight lanes that the compiler vectorises.
float dot(const float* a, const float* b, int64_t length) {
  float lanes[8] = {}, sum = 0;
  int64_t i = 0;
  for (; i + 8 <= length; i += 8) {
    for (int lane = 0; lane < 8; ++lane) lanes[lane] += a[i + lane] * b[i + lane];
  }
  for (; i < length; ++i) sum += a[i] * b[i];
  for (const float lane : lanes) sum += lane;
  return sum;
}

// to[i] += factor from[i].
void add_scaled(float* to, const float* from, float factor, int64_t length) {
  for (int64_t i = 0; i < length; ++i) to[i] += factor * from[i];
}

void multiply(float* y, const float* a, const float* b, const Matmul& p) {
  if (!p.accumulate) std::fill(y, y + p.m * p.n, 0.0f);
  for (int64_t i = 0; i < p.m; ++i) {
    float* row = y + i * p.n;
    if (p.transpose_b && !p.transpose_a) {
      for (int64_t j = 0; j < p.n; ++j) row[j] += dot(a + i * p.k, b + j * p.k, p.k);
      continue;
    }
    for (int64_t l = 0; l < p.k; ++l) {
      const float left = p.transpose_a ? a[l * p.m + i] : a[i * p.k + l];
      if (!p.transpose_b) {
        add_scaled(row, b + l * p.n, left, p.n);
      } else {
        for (int64_t j = 0; j < p.n; ++j) row[j] += left * b[j * p.k + l];
      }
    }
  }
}

void use(int) {}
void synchronize() {}
bool done() { return true; }
void* stream() { return nullptr; }

}  // namespace

const Device& cpu_device() {
  static const Device device = {.name = "cpu",
                                .memory = "host",
                                .is_host_memory = true,
                                .allocate = allocate,
                                .release = release,
                                .free_bytes = free_bytes,
                                .allocate_staging = allocate,
                                .release_staging = release,
                                .from_host = copy,
                                .to_host = copy,
                                .copy = copy,
                                .copy_strided = copy_strided,
                                .reduce = reduce_on_host,
                                .draw = draw_on_host,
                                .multiply = multiply,
                                .use = use,
                                .synchronize = synchronize,
                                .done = done,
                                .stream = stream};
  return device;
}

}  // namespace tpplan
