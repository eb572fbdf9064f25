// Compares a device with the CPU device byte for byte: copies, strided copies, reductions and matmuls. The argument is
// the device. Status 0: all are equal; 1: prints the first difference; 2: no such device.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "exec/device/device.h"
#include "exec/device/element_arithmetic.h"

using namespace tpplan;

namespace {

using Bytes = std::vector<uint8_t>;
using Memory = std::shared_ptr<void>;

std::mt19937_64 g_random(7);

uint64_t pick(uint64_t low, uint64_t high) { return low + g_random() % (high - low + 1); }

Bytes random_bytes(uint64_t size) {
  Bytes bytes(size);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(g_random());
  return bytes;
}

Memory put(const Device& device, const Bytes& content) {
  Memory memory(device.allocate(content.size()), device.release);
  if (memory == nullptr) throw std::bad_alloc();
  device.from_host(memory.get(), content.data(), content.size());
  return memory;
}

Bytes get(const Device& device, const Memory& memory, uint64_t size) {
  Bytes content(size);
  device.to_host(content.data(), memory.get(), size);
  return content;
}

bool same(const char* what, const Bytes& expected, const Bytes& got) {
  for (size_t i = 0; i < expected.size(); ++i) {
    if (expected[i] == got[i]) continue;
    std::printf("%s: byte %zu of %zu is %02x and not %02x\n", what, i, expected.size(), got[i], expected[i]);
    return false;
  }
  return true;
}

bool check_fresh_memory(const Device& device) {
  for (const uint64_t size : {uint64_t{1}, uint64_t{4097}, uint64_t{32} << 20}) {
    const Memory memory(device.allocate(size), device.release);
    if (!same("fresh memory", Bytes(size), get(device, memory, size))) return false;
  }
  return true;
}

// Checks copies from the host. Staging memory may be overwritten after synchronize, other host memory immediately after
// the call.
bool check_host_copies(const Device& device) {
  const uint64_t size = uint64_t{8} << 20;
  const std::shared_ptr<void> staging(device.allocate_staging(size), device.release_staging);
  const Bytes first = random_bytes(size), second = random_bytes(size);
  const Memory a(device.allocate(size), device.release), b(device.allocate(size), device.release);
  std::memcpy(staging.get(), first.data(), size);
  device.from_host(a.get(), staging.get(), size);
  device.synchronize();
  if (!device.done()) return std::printf("done() is false after synchronize\n"), false;
  Bytes pageable = second;
  device.from_host(b.get(), pageable.data(), size);
  std::memset(pageable.data(), 0, size);
  std::memset(staging.get(), 0, size);
  if (!same("from staging", first, get(device, a, size)) || !same("from other memory", second, get(device, b, size)))
    return false;
  device.copy(b.get(), a.get(), size);
  return same("copy", first, get(device, b, size));
}

bool check_strided(const Device& device, const StridedCopy& how, uint64_t to_start, uint64_t from_start,
                   uint64_t size) {
  const Bytes source = random_bytes(size), before = random_bytes(size);
  Bytes expected = before;
  cpu_device().copy_strided(expected.data() + to_start, source.data() + from_start, how);
  const Memory from = put(device, source), to = put(device, before);
  device.copy_strided(static_cast<char*>(to.get()) + to_start, static_cast<const char*>(from.get()) + from_start, how);
  return same("strided copy", expected, get(device, to, size));
}

// Checks strided copies of a random slice of a larger tensor on both sides, at every alignment of its elements.
bool check_strided_copies(const Device& device) {
  for (int round = 0; round < 300; ++round) {
    const uint64_t width = uint64_t{1} << pick(0, 4), dims = pick(1, round % 10 == 0 ? 9 : 4), most = dims > 4 ? 3 : 24;
    StridedCopy how;
    uint64_t from_stride = width, to_stride = width;
    for (uint64_t dim = 0; dim < dims; ++dim) {
      const uint64_t count = pick(0, 30) == 0 ? 0 : pick(1, most);
      if (dim == 0) {
        how.run_bytes = count * width;
      } else {
        how.counts.insert(how.counts.begin(), count);
        how.from_strides.insert(how.from_strides.begin(), from_stride);
        how.to_strides.insert(how.to_strides.begin(), to_stride);
      }
      from_stride *= count + pick(0, 2);
      to_stride *= count + pick(0, 2);
    }
    const uint64_t start = pick(0, 3) * width;
    if (!check_strided(device, how, pick(0, 3) * width, start, std::max(from_stride, to_stride) + 4 * width))
      return false;
  }
  // More elements than one launch has threads.
  return check_strided(device, {.run_bytes = 3000, .counts = {4000}, .from_strides = {4096}, .to_strides = {3001}}, 1,
                       5, 4000 * 4096 + 64);
}

bool check_reductions(const Device& device) {
  for (const DTypeRow& row : dtypes()) {
    const DType dtype = dtype_of(row.name);
    for (const uint64_t elements : {uint64_t{0}, uint64_t{1}, uint64_t{1000}, uint64_t{5000000}}) {
      if (elements > 1000 && row.name != "float32" && row.name != "bfloat16") continue;
      for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Avg, ReduceOp::Max, ReduceOp::Min}) {
        const uint64_t size = byte_size(dtype, elements);
        Bytes expected = random_bytes(size);  // any bit pattern, including NaN and infinity
        const Bytes other = random_bytes(size);
        const Memory to = put(device, expected), from = put(device, other);
        const bool has = cpu_device().reduce(expected.data(), other.data(), elements, dtype, op);
        if (device.reduce(to.get(), from.get(), elements, dtype, op) != has)
          return std::printf("%s: arithmetic or not\n", row.name.data()), false;
        if (has && !same(row.name.data(), expected, get(device, to, size))) return false;
      }
    }
  }
  return true;
}

Bytes whole_numbers(int64_t count) {
  Bytes bytes(static_cast<size_t>(count) * sizeof(float));
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    const float value = static_cast<float>(static_cast<int>(pick(0, 8)) - 4);
    std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value);
  }
  return bytes;
}

// Checks matmuls of small integers. Their results are exact in any order, so cuBLAS and a plain loop must agree.
bool check_products(const Device& device) {
  for (int bits = 0; bits < 8; ++bits) {
    for (const auto& [m, n, k] :
         {std::array<int64_t, 3>{1, 1, 1}, {5, 4, 3}, {64, 96, 33}, {130, 7, 257}, {3, 5, 0}, {0, 3, 2}}) {
      const Matmul p{.m = m,
                     .n = n,
                     .k = k,
                     .transpose_a = (bits & 1) != 0,
                     .transpose_b = (bits & 2) != 0,
                     .accumulate = (bits & 4) != 0};
      const Bytes a = whole_numbers(m * k), b = whole_numbers(k * n), before = whole_numbers(m * n);
      Bytes expected = before;
      const auto floats = [](const Bytes& bytes) { return reinterpret_cast<const float*>(bytes.data()); };
      cpu_device().multiply(reinterpret_cast<float*>(expected.data()), floats(a), floats(b), p);
      const Memory device_a = put(device, a), device_b = put(device, b), y = put(device, before);
      device.multiply(static_cast<float*>(y.get()), static_cast<const float*>(device_a.get()),
                      static_cast<const float*>(device_b.get()), p);
      if (!same("product", expected, get(device, y, before.size()))) return false;
    }
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  std::string reason = "no device has this name";
  const std::string name = argc > 1 ? argv[1] : "";
  const Device* device = name == "cpu" ? &cpu_device() : name == "cuda" ? cuda_device(reason) : nullptr;
  if (device == nullptr) {
    std::printf("%s\n", reason.c_str());
    return 2;
  }
  if (argc > 2) return 0;  // a second argument asks only if the device exists
  device->use(0);
  const uint64_t free = device->free_bytes();
  const bool fine = free > 0 && check_fresh_memory(*device) && check_host_copies(*device) &&
                    check_strided_copies(*device) && check_reductions(*device) && check_products(*device);
  if (fine && device->allocate(uint64_t{1} << 60) != nullptr) return std::printf("2^60 bytes are given\n"), 1;
  if (fine) std::printf("%s agrees with cpu\n", name.c_str());
  return fine ? 0 : 1;
}
