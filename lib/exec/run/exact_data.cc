#include "exec/run/exact_data.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>
#include <type_traits>

#include "exec/device/element_arithmetic.h"

namespace tpplan {
namespace {

// The finalizer of SplitMix64 (Steele, Lea, Flood 2014).
uint64_t mixed(uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

// The encoding of integers in a dtype with arithmetic, and its lowest test value.
struct NumberType {
  void (*put)(char* out, int value) = nullptr;
  int lowest = -2;
  uint64_t exact = 0;  // largest integer that is exact; 0: no limit, because sums wrap in the same way in every order
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

// Returns 2 to the power of the mantissa digits.
template <typename T>
constexpr uint64_t exact_up_to() {
  if constexpr (std::is_integral_v<T>) {
    return 0;
  } else if constexpr (std::is_same_v<T, Bfloat16>) {
    return uint64_t{1} << 8;
  } else if constexpr (std::is_same_v<T, Half>) {
    return uint64_t{1} << 11;
  } else {
    return uint64_t{1} << std::numeric_limits<T>::digits;
  }
}

std::optional<NumberType> number_type(DType dtype) {
  NumberType type;
  const bool has = visit_arithmetic_type(dtypes()[dtype].name, [&](auto zero) {
    using T = decltype(zero);
    type = {put_number<T>, std::is_unsigned_v<T> ? 0 : -2, exact_up_to<T>()};
  });
  return has ? std::optional(type) : std::nullopt;
}

// Returns the indices of the contributions that are summed in a rank's value: all coordinates along the reduced axes,
// and only this rank's coordinate along the `open` (not yet reduced) axes.
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

// Returns n if only every n-th contribution to an element may be nonzero, so that the sum stays exact in the dtype.
// Which ones are nonzero rotates with the index of the element. An average needs one nonzero contribution, because each
// is multiplied by their number.
uint64_t turns(const ExactTensor& tensor, const NumberType& number, uint64_t contributions) {
  const bool adds = tensor.op == ReduceOp::Sum || tensor.op == ReduceOp::Avg;
  if (!adds || number.exact == 0 || contributions <= number.exact / 2) return 1;
  const uint64_t together = tensor.op == ReduceOp::Avg ? 1 : number.exact / 2;
  return (contributions + together - 1) / together;
}

int reduced_value(const ExactTensor& tensor, uint64_t index, std::span<const uint64_t> parts, const NumberType& number,
                  uint64_t contributions) {
  const uint64_t in_turn = turns(tensor, number, contributions);
  const auto value_of = [&](uint64_t part) {
    if ((index + part) % in_turn != 0) return 0;
    const int value = exact_value(tensor.salt, index, part) + 2 + number.lowest;
    return value == 0 && in_turn > 1 ? 1 : value;  // a rotated contribution must not be 0 when it is its turn
  };
  int64_t result = value_of(parts[0]);
  for (const uint64_t part : parts.subspan(1)) {
    const int64_t value = value_of(part);
    result = tensor.op == ReduceOp::Max   ? std::max(result, value)
             : tensor.op == ReduceOp::Min ? std::min(result, value)
                                          : result + value;
  }
  // Every contribution to an average is multiplied by their number, so that the average is an integer.
  if (tensor.op == ReduceOp::Avg)
    result = result * static_cast<int64_t>(contributions) / static_cast<int64_t>(parts.size());
  return static_cast<int>(result);
}

}  // namespace

int exact_value(uint64_t salt, uint64_t index, uint64_t part) {
  return static_cast<int>(mixed(mixed(salt + 0x9e3779b97f4a7c15u * (part + 1)) + index) % 5) - 2;
}

bool supports_sums(DType dtype) { return number_type(dtype).has_value(); }

std::vector<char> exact_bytes(const ExactTensor& tensor, const Mesh& mesh, std::span<const int64_t> coordinate,
                              const std::vector<std::vector<Interval>>& slice, std::span<const AxisId> open) {
  const std::optional<NumberType> number = number_type(tensor.dtype);
  const size_t width = dtypes()[tensor.dtype].bits / 8;
  const std::vector<uint64_t> parts = parts_of(tensor, mesh, coordinate, open);
  uint64_t contributions = 1;
  for (const AxisId axis : tensor.partial) contributions *= static_cast<uint64_t>(mesh.axes[axis].size);
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
        number->put(out, reduced_value(tensor, index, parts, *number, contributions));
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
