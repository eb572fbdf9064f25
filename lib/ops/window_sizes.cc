#include "ops/window_sizes.h"

#include <algorithm>
#include <cmath>

#include "ops/op_row.h"

namespace tpplan {
namespace {

// An argument with one number for all dims, or one for each dim.
struct PerDim {
  std::vector<PerRankNumber> numbers;
  int64_t absent = 0;
};

PerDim per_dim(const OpCall& call, size_t position, std::string_view keyword, int64_t absent) {
  return {numbers_at(call, position, keyword), absent};
}

int64_t at(const PerDim& argument, size_t dim, size_t rank = 0) {
  if (argument.numbers.empty()) return argument.absent;
  return argument.numbers[std::min(dim, argument.numbers.size() - 1)].local[rank];
}

bool is_text(const OpCall& call, size_t position, std::string_view keyword, std::string_view text) {
  const GraphArg* arg = find_arg(call, position, keyword);
  return arg != nullptr && arg->kind == ArgKind::Text && call.graph.texts[arg->id] == text;
}

int64_t windows(int64_t size, int64_t window, int64_t stride, int64_t padding, int64_t dilation, bool up) {
  const int64_t last_start = size + 2 * padding - dilation * (window - 1) - 1;
  if (stride <= 0) return size;
  int64_t count = (last_start + (up ? stride - 1 : 0)) / stride + 1;
  // The last window must begin within the dim or its left padding (at::native::pooling_output_shape, torch 2.13).
  if (up && (count - 1) * stride >= size + padding) --count;
  return count;
}

size_t window_dims(const OpCall& call) { return static_cast<size_t>(op_row(call.node.op).along.absent - kLastDims); }

}  // namespace

void convolution_sizes(const OpCall& call, const Sizes& x, Sizes& out) {
  const auto weight = tensor_at(call, 1, "weight");
  if (!weight || weight->shape.size() < 3 || x.size() != out.size()) return;
  const size_t dims = weight->shape.size() - 2, first = out.size() - dims;
  const PerDim stride = per_dim(call, 3, "stride", 1), padding = per_dim(call, 4, "padding", 0),
               dilation = per_dim(call, 5, "dilation", 1);
  const bool is_same = is_text(call, 4, "padding", "same");
  for (size_t dim = 0; dim < dims; ++dim)
    out[first + dim] = is_same ? x[first + dim]
                               : windows(x[first + dim], weight->shape[2 + dim], at(stride, dim), at(padding, dim),
                                         at(dilation, dim), false);
}

void transposed_sizes(const OpCall& call, const Sizes& x, Sizes& out) {
  const auto weight = tensor_at(call, 1, "weight");
  if (!weight || weight->shape.size() < 3 || x.size() != out.size()) return;
  const size_t dims = weight->shape.size() - 2, first = out.size() - dims;
  const PerDim stride = per_dim(call, 3, "stride", 1), padding = per_dim(call, 4, "padding", 0),
               more = per_dim(call, 5, "output_padding", 0), dilation = per_dim(call, 7, "dilation", 1);
  for (size_t dim = 0; dim < dims; ++dim)
    out[first + dim] = (x[first + dim] - 1) * at(stride, dim) - 2 * at(padding, dim) +
                       at(dilation, dim) * (weight->shape[2 + dim] - 1) + at(more, dim) + 1;
}

void pool_sizes(const OpCall& call, const Sizes& x, Sizes& out) {
  const size_t dims = window_dims(call), first = out.size() - std::min(dims, out.size());
  if (x.size() != out.size()) return;
  const bool is_max = op_row(call.node.op).linearity != Linearity::Linear;
  const PerDim window = per_dim(call, 1, "kernel_size", 1), stride = per_dim(call, 2, "stride", 0),
               padding = per_dim(call, 3, "padding", 0),
               dilation = is_max ? per_dim(call, 4, "dilation", 1) : PerDim{{}, 1};
  const bool up = bool_at(call, is_max ? 5 : 4, "ceil_mode", false);
  for (size_t dim = 0; first + dim < out.size(); ++dim)
    out[first + dim] =
        windows(x[first + dim], at(window, dim), at(stride, dim) == 0 ? at(window, dim) : at(stride, dim),
                at(padding, dim), at(dilation, dim), up);
}

// Sets the requested sizes. A dim with None is unchanged.
void adaptive_sizes(const OpCall& call, const Sizes& x, Sizes& out) {
  const size_t dims = window_dims(call), first = out.size() - std::min(dims, out.size());
  uint32_t index = 0;
  const GraphArg* requested = find_arg(call, 1, "output_size", &index);
  if (requested == nullptr || x.size() != out.size()) return;
  for (size_t dim = 0; first + dim < out.size() && is_number(requested); ++dim)
    out[first + dim] = number_of(call, *requested).local[0];
  size_t dim = first;
  for (uint32_t i = index + 1; requested->kind == ArgKind::Tuple && i < requested->end && dim < out.size();
       i = call.graph.args[i].end, ++dim) {
    const GraphArg& size = call.graph.args[i];
    out[dim] = is_number(&size) ? number_of(call, size).local[0] : x[dim];
  }
}

int64_t count_windows(const OpCall& call, size_t position, const int64_t (&image)[2], size_t rank) {
  constexpr int64_t kMost = int64_t{1} << 31;  // keeps the products and sums below in the range of int64_t
  const PerDim window = per_dim(call, position, "kernel_size", 1),
               dilation = per_dim(call, position + 1, "dilation", 1),
               padding = per_dim(call, position + 2, "padding", 0), stride = per_dim(call, position + 3, "stride", 1);
  int64_t places = 1;
  for (size_t dim = 0; dim < 2; ++dim) {
    const int64_t numbers[] = {image[dim], at(window, dim, rank), at(dilation, dim, rank), at(padding, dim, rank),
                               at(stride, dim, rank)};
    if (std::any_of(std::begin(numbers), std::end(numbers), [](int64_t n) { return n < 0 || n >= kMost; })) return -1;
    const int64_t count = windows(numbers[0], numbers[1], numbers[4], numbers[3], numbers[2], false);
    if (__builtin_mul_overflow(places, count, &places)) return -1;
  }
  return places;
}

// (input, kernel_size, dilation, padding, stride): one column for each window.
void column_sizes(const OpCall& call, const Sizes& x, Sizes& out) {
  if (x.size() < 3 || out.empty()) return;
  out.back() = count_windows(call, 1, {x[x.size() - 2], x.back()}, 0);
}

void image_sizes(const OpCall& call, const Sizes&, Sizes& out) {
  const PerDim size = per_dim(call, 1, "output_size", 0);
  for (size_t dim = 0; dim < 2 && out.size() > 2; ++dim) out[out.size() - 2 + dim] = at(size, dim);
}

void interpolate_sizes(const OpCall& call, const Sizes& x, Sizes& out) {
  if (x.size() != out.size() || x.size() < 3) return;
  const PerDim size = per_dim(call, 1, "size", 0);
  uint32_t index = 0;
  const GraphArg* factors = find_arg(call, 2, "scale_factor", &index);
  const auto factor_at = [&](size_t dim) {
    const GraphArg* factor = factors;
    for (uint32_t i = index + 1; factors->kind == ArgKind::Tuple && i < factors->end; i = call.graph.args[i].end) {
      factor = &call.graph.args[i];
      if (dim-- == 0) break;
    }
    return factor->kind == ArgKind::Float ? factor->number
           : is_number(factor)            ? static_cast<double>(number_of(call, *factor).local[0])
                                          : 1.0;
  };
  for (size_t dim = 2; dim < out.size(); ++dim) {
    if (!size.numbers.empty())
      out[dim] = at(size, dim - 2);
    else if (factors != nullptr)
      out[dim] = static_cast<int64_t>(std::floor(static_cast<double>(x[dim]) * factor_at(dim - 2)));
  }
}

}  // namespace tpplan
