#include "run/exact_data.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>
#include <type_traits>

#include "device/element_arithmetic.h"

namespace tpplan {
namespace {

// The finalizer of SplitMix64 (Steele, Lea, Flood 2014).
uint64_t mixed(uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

// How a dtype with arithmetic writes a whole number, and the lowest of the test values.
struct NumberType {
  void (*put)(char* out, int value) = nullptr;
  int lowest = -2;
};

template <typename T>
void put_number(char* out, int value) {
  T number;
  if constexpr (std::is_class_v<T>) {
    number = T::of(static_cast<float>(value));
  } else {
    number = static_cast<T>(value);
  }
  std::memcpy(out, &number, sizeof number);
}

std::optional<NumberType> number_type(DType dtype) {
  NumberType type;
  const bool has = visit_arithmetic_type(dtypes()[dtype].name, [&](auto zero) {
    using T = decltype(zero);
    type = {put_number<T>, std::is_unsigned_v<T> ? 0 : -2};
  });
  return has ? std::optional(type) : std::nullopt;
}

// The contributions that make up a rank's value: every coordinate of the axes that are reduced, its own on the open
// ones.
std::vector<uint64_t> parts_of(const ExactTensor& tensor, const Mesh& mesh, std::span<const int64_t> coordinate,
                               std::span<const AxisId> open) {
  std::vector<uint64_t> parts = {0};
  for (const AxisId axis : tensor.partial) {
    const uint64_t size = static_cast<uint64_t>(mesh.axes[axis].size);
    const bool own = std::ranges::find(open, axis) != open.end();
    std::vector<uint64_t> next;
    for (const uint64_t part : parts) {
      for (uint64_t i = 0; i < size; ++i) {
        if (!own || i == static_cast<uint64_t>(coordinate[axis])) next.push_back(part * size + i);
      }
    }
    parts = std::move(next);
  }
  return parts;
}

int reduced_value(const ExactTensor& tensor, uint64_t index, std::span<const uint64_t> parts, int lowest, int scale) {
  int result = exact_value(tensor.salt, index, parts[0]) + 2 + lowest;
  for (const uint64_t part : parts.subspan(1)) {
    const int value = exact_value(tensor.salt, index, part) + 2 + lowest;
    result = tensor.op == ReduceOp::Max   ? std::max(result, value)
             : tensor.op == ReduceOp::Min ? std::min(result, value)
                                          : result + value;
  }
  return tensor.op == ReduceOp::Avg ? result * scale / static_cast<int>(parts.size()) : result;
}

}  // namespace

int exact_value(uint64_t salt, uint64_t index, uint64_t part) {
  return static_cast<int>(mixed(mixed(salt + 0x9e3779b97f4a7c15u * (part + 1)) + index) % 5) - 2;
}

bool has_arithmetic(DType dtype) { return number_type(dtype).has_value(); }

std::vector<char> exact_bytes(const ExactTensor& tensor, const Mesh& mesh, std::span<const int64_t> coordinate,
                              const std::vector<std::vector<Interval>>& slice, std::span<const AxisId> open) {
  const std::optional<NumberType> number = number_type(tensor.dtype);
  const size_t width = dtypes()[tensor.dtype].bits / 8;
  const std::vector<uint64_t> parts = parts_of(tensor, mesh, coordinate, open);
  // An average stays whole when every contribution is a multiple of the number of contributions.
  int scale = 1;
  for (const AxisId axis : tensor.partial) scale *= static_cast<int>(mesh.axes[axis].size);
  uint64_t count = 1;
  for (const std::vector<Interval>& runs : slice) {
    uint64_t length_of_dim = 0;
    for (const Interval& run : runs) length_of_dim += static_cast<uint64_t>(length(run));
    count *= length_of_dim;
  }
  std::vector<char> bytes(count * width);
  char* out = bytes.data();
  const std::function<void(size_t, uint64_t)> fill = [&](size_t dim, uint64_t index) {
    if (dim == slice.size()) {
      if (number) {
        number->put(out, reduced_value(tensor, index, parts, number->lowest, scale));
      } else {
        for (size_t i = 0; i < width; ++i) out[i] = static_cast<char>(mixed(tensor.salt + index * width + i));
      }
      out += width;
      return;
    }
    for (const Interval& run : slice[dim]) {
      for (int64_t i = run.begin; i < run.end; ++i)
        fill(dim + 1, index * static_cast<uint64_t>(tensor.shape[dim]) + static_cast<uint64_t>(i));
    }
  };
  if (count != 0) fill(0, 0);
  return bytes;
}

}  // namespace tpplan
