#include "cost/strides.h"

#include <algorithm>
#include <numeric>

namespace tpplan {
namespace {

int64_t count_of(std::span<const int64_t> shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

// Returns the stride of an operand for dim `dim` of the result; 0 if it is broadcast.
int64_t stride_at(const StridedShape& operand, size_t dim, size_t ndim) {
  const size_t missing = ndim - operand.shape.size();
  if (dim < missing || operand.shape[dim - missing] == 1) return 0;
  return operand.strides[dim - missing];
}

// Compares two dims by the strides of the operands: which one is further inside; 0 if no operand decides.
int compare(std::span<const StridedShape> operands, std::span<const int64_t> out, size_t a, size_t b) {
  for (const StridedShape& operand : operands) {
    const int64_t x = stride_at(operand, a, out.size()), y = stride_at(operand, b, out.size());
    if (x == 0 || y == 0) continue;
    if (x != y) return x < y ? -1 : 1;
    if (out[a] > out[b]) return 1;
  }
  return 0;
}

}  // namespace

Strides dense_strides(std::span<const int64_t> shape) {
  Strides strides(shape.size());
  int64_t step = 1;
  for (size_t dim = shape.size(); dim-- > 0;) {
    strides[dim] = step;
    step *= std::max<int64_t>(shape[dim], 1);
  }
  return strides;
}

bool is_dense(std::span<const int64_t> shape, std::span<const int64_t> strides) {
  int64_t step = 1;
  for (size_t dim = shape.size(); dim-- > 0;) {
    if (shape[dim] == 1) continue;
    if (strides[dim] != step) return count_of(shape) == 0;
    step *= shape[dim];
  }
  return true;
}

std::optional<Strides> view_strides(std::span<const int64_t> from, std::span<const int64_t> strides,
                                    std::span<const int64_t> to) {
  if (count_of(from) == 0 || from.empty()) return dense_strides(to);
  Strides out(to.size());
  size_t view_dim = to.size();  // one after the next
  int64_t base = strides.back(), have = 1, given = 1;
  for (size_t dim = from.size(); dim-- > 0;) {
    have *= from[dim];
    const bool ends_here = dim == 0 || (from[dim - 1] != 1 && strides[dim - 1] != have * base);
    if (!ends_here) continue;
    while (view_dim > 0 && (given < have || to[view_dim - 1] == 1)) {
      --view_dim;
      out[view_dim] = given * base;
      given *= to[view_dim];
    }
    if (given != have) return std::nullopt;
    if (dim == 0) break;
    base = strides[dim - 1];
    have = given = 1;
  }
  if (view_dim != 0) return std::nullopt;
  return out;
}

Strides expanded_strides(std::span<const int64_t> from, std::span<const int64_t> strides, std::span<const int64_t> to) {
  Strides out(to.size(), 0);
  const size_t missing = to.size() - std::min(to.size(), from.size());
  for (size_t dim = missing; dim < to.size(); ++dim) {
    if (from[dim - missing] == to[dim]) out[dim] = strides[dim - missing];
  }
  return out;
}

Strides elementwise_strides(std::span<const StridedShape> operands, std::span<const int64_t> out) {
  const size_t ndim = out.size();
  std::vector<size_t> order(ndim);  // the innermost first
  for (size_t i = 0; i < ndim; ++i) order[i] = ndim - 1 - i;
  for (size_t i = 1; i < ndim; ++i) {
    size_t at = i;
    for (size_t before = i; before-- > 0;) {
      const int found = compare(operands, out, order[before], order[at]);
      if (found > 0)
        std::swap(order[before], order[at]), at = before;
      else if (found < 0)
        break;
    }
  }
  Strides strides(ndim);
  int64_t step = 1;
  for (const size_t dim : order) {
    strides[dim] = step;
    step *= std::max<int64_t>(out[dim], 1);
  }
  return strides;
}

}  // namespace tpplan
