// Peer of the executor in gpu_bench.py: tpplan_pinned_copy DEVICE BYTES copies this many bytes from staging memory to
// the device, alternating between two staging buffers like a load. Prints the best GB/s of five rounds as JSON.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "exec/device/device.h"

using namespace tpplan;

namespace {

constexpr uint64_t kBlock = uint64_t{16} << 20;

double copy_once(const Device& device, char* to, const char* staging, uint64_t bytes) {
  const auto start = std::chrono::steady_clock::now();
  for (uint64_t done = 0; done < bytes; done += kBlock) {
    device.from_host(to + done, staging + done / kBlock % 2 * kBlock, std::min(kBlock, bytes - done));
  }
  device.synchronize();
  return static_cast<double>(bytes) / std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() /
         1e9;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  std::string reason = "no device has this name";
  const std::string name = argv[1];
  const uint64_t bytes = std::strtoull(argv[2], nullptr, 10);
  const Device* device = name == "cpu" ? &cpu_device() : name == "cuda" ? cuda_device(reason) : nullptr;
  if (device == nullptr) return std::fprintf(stderr, "%s\n", reason.c_str()), 2;
  device->use(0);
  void* staging = device->allocate_staging(2 * kBlock);
  void* to = device->allocate(bytes);
  if (staging == nullptr || to == nullptr)
    return std::fprintf(stderr, "%llu bytes are not free\n", static_cast<unsigned long long>(bytes)), 3;
  std::memset(staging, 1, 2 * kBlock);
  double best = 0;
  for (int round = 0; round < 5; ++round)
    best = std::max(best, copy_once(*device, static_cast<char*>(to), static_cast<const char*>(staging), bytes));
  std::printf("{\"pinned_copy\": %.3f}\n", best);
  device->release(to);
  device->release_staging(staging);
  return 0;
}
