#include "exec/device/device.h"

namespace tpplan {
namespace {

const Device* find_cpu(std::string&) { return &cpu_device(); }

constexpr DeviceRow kDevices[] = {{"cpu", find_cpu}, {"cuda", cuda_device}};

}  // namespace

std::span<const DeviceRow> device_rows() { return kDevices; }

const char* host_view(const Device& device, const void* memory, uint64_t bytes, std::vector<char>& buffer) {
  if (device.is_host_memory || bytes == 0) return static_cast<const char*>(memory);
  if (buffer.size() < bytes) buffer.resize(bytes);
  device.to_host(buffer.data(), memory, bytes);
  return buffer.data();
}

}  // namespace tpplan
