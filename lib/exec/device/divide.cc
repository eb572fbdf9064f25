#include "exec/device/divide.h"

#include <memory>
#include <new>
#include <tuple>

#include "exec/device/host_arithmetic.h"

namespace tpplan {

void divide(const Device& device, void* data, uint64_t elements, DType dtype, uint64_t count) {
  if (elements == 0) return;
  const uint64_t bytes = byte_size(dtype, elements);
  const std::unique_ptr<void, void (*)(void*)> staging(device.allocate_staging(bytes), device.release_staging);
  if (staging == nullptr) throw std::bad_alloc();
  device.to_host(staging.get(), data, bytes);
  std::ignore =
      divide_on_host(staging.get(), elements, dtype, count);  // the sum before has rejected dtypes without arithmetic
  device.from_host(data, staging.get(), bytes);
  device.synchronize();
}

}  // namespace tpplan
