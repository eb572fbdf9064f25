#include "sharding/tensor_size.h"

namespace tpplan {

uint64_t elements_of(std::span<const int64_t> shape) {
  uint64_t elements = 1;
  for (const int64_t size : shape) elements *= static_cast<uint64_t>(size);
  return elements;
}

uint64_t bytes_of(DType dtype, std::span<const int64_t> shape) { return byte_size(dtype, elements_of(shape)); }

}  // namespace tpplan
