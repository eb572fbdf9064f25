#include "sharding/tensor_size.h"

namespace tpplan {
namespace {

template <typename Size>
std::string list_text(std::span<const Size> sizes) {
  std::string text = "[";
  for (const Size size : sizes) text.append(text.size() == 1 ? "" : ", ").append(std::to_string(size));
  return text + "]";
}

}  // namespace

std::string shape_text(std::span<const int64_t> shape) { return list_text(shape); }
std::string shape_text(std::span<const uint64_t> shape) { return list_text(shape); }

uint64_t elements_of(std::span<const int64_t> shape) {
  uint64_t elements = 1;
  for (const int64_t size : shape) elements *= static_cast<uint64_t>(size);
  return elements;
}

uint64_t bytes_of(DType dtype, std::span<const int64_t> shape) { return byte_size(dtype, elements_of(shape)); }

}  // namespace tpplan
