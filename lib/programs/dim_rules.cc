// Rules of operations whose dims correspond: elementwise operations, broadcasts, slices, reductions, products.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <numeric>

#include "programs/attribute_text.h"
#include "programs/operation_rules.h"

namespace tpplan::programs {
namespace {

// Adds a factor for each dim of tensors of one rank, sized as `sizes`; scalars are left out. `kind_of` returns its
// kind.
template <typename KindOf>
void add_dims(RuleBuilder& b, std::span<const int64_t> sizes, const KindOf& kind_of) {
  for (uint32_t i = 0; i < tensors_of(b); ++i) {
    const size_t rank = tensor_shape(b, i).size();
    if (rank != 0 && !expect_rank(b, i, sizes.size())) return;
  }
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    const FactorKind kind = kind_of(dim);
    add_factor(b, sizes[dim], kind);
    map_all(b, static_cast<int64_t>(dim));
  }
}

}  // namespace

void build_pointwise(RuleBuilder& b) {
  if (b.operation.result_count == 0) return reject(b, fmt::format("{} has no result", b.operation.name));
  const std::span<const int64_t> shape = tensor_shape(b, inputs_of(b));
  for (uint32_t i = 0; i < tensors_of(b); ++i) {
    const std::span<const int64_t> other = tensor_shape(b, i);
    if (!other.empty() && !std::ranges::equal(other, shape))
      return reject(b, fmt::format("the tensors of {} have different shapes", b.operation.name));
  }
  add_dims(b, shape, [](size_t) { return FactorKind::Pass; });
}

void build_broadcast(RuleBuilder& b) {
  std::vector<int64_t> dims;
  if (!expect_counts(b, 1, 1) || !read_attribute(b, "broadcast_dimensions", dims)) return;
  const std::span<const int64_t> in = tensor_shape(b, 0), out = tensor_shape(b, 1);
  std::vector<int64_t> sources(out.size(), kUnmapped);
  bool is_good = dims.size() == in.size();
  for (size_t i = 0; is_good && i < dims.size(); ++i) {
    is_good = dims[i] >= 0 && dims[i] < static_cast<int64_t>(out.size()) &&
              sources[static_cast<size_t>(dims[i])] == kUnmapped &&
              (in[i] == 1 || in[i] == out[static_cast<size_t>(dims[i])]);
    if (is_good) sources[static_cast<size_t>(dims[i])] = static_cast<int64_t>(i);
  }
  if (!is_good) return reject(b, "`broadcast_dimensions` do not fit the tensors of a broadcast");
  for (size_t dim = 0; dim < out.size(); ++dim) {
    int64_t source = sources[dim];
    if (source != kUnmapped && in[static_cast<size_t>(source)] == 1 && out[dim] != 1) {
      // A dim of size 1 is expanded, and has nothing in common with its dim of the result.
      add_factor(b, 1);
      map_dim(b, 0, source);
      source = kUnmapped;
    }
    add_factor(b, out[dim]);
    map_dim(b, 0, source);
    map_dim(b, 1, static_cast<int64_t>(dim));
  }
}

void build_transpose(RuleBuilder& b) {
  std::vector<int64_t> permutation;
  if (!expect_counts(b, 1, 1) || !read_attribute(b, "permutation", permutation)) return;
  const std::span<const int64_t> in = tensor_shape(b, 0);
  std::vector<int64_t> sorted = permutation;
  std::ranges::sort(sorted);
  bool is_good = permutation.size() == in.size() && tensor_shape(b, 1).size() == in.size();
  for (size_t i = 0; is_good && i < sorted.size(); ++i) is_good = sorted[i] == static_cast<int64_t>(i);
  if (!is_good) return reject(b, "`permutation` does not fit the tensors of a transpose");
  for (size_t dim = 0; dim < in.size(); ++dim) {
    add_factor(b, in[static_cast<size_t>(permutation[dim])]);
    map_dim(b, 0, permutation[dim]);
    map_dim(b, 1, static_cast<int64_t>(dim));
  }
}

void build_reverse(RuleBuilder& b) {
  std::vector<int64_t> dims;
  if (!expect_counts(b, 1, 1) || !read_attribute(b, "dimensions", dims)) return;
  add_dims(b, tensor_shape(b, 1),
           [&](size_t dim) { return is_in(dims, static_cast<int64_t>(dim)) ? FactorKind::Permute : FactorKind::Pass; });
}

void build_dot(RuleBuilder& b) {
  if (!expect_counts(b, 2, 1)) return;
  const std::string_view text = attribute_of(b.program, b.operation, "dot_dimension_numbers");
  const std::span<const int64_t> lhs = tensor_shape(b, 0), rhs = tensor_shape(b, 1), out = tensor_shape(b, 2);
  std::vector<int64_t> batch[2], contracted[2];
  const auto rank = [](std::span<const int64_t> shape) { return static_cast<int64_t>(shape.size()); };
  if (!read_dims(b, text, "lhs_batching_dimensions", rank(lhs), batch[0]) ||
      !read_dims(b, text, "rhs_batching_dimensions", rank(rhs), batch[1]) ||
      !read_dims(b, text, "lhs_contracting_dimensions", rank(lhs), contracted[0]) ||
      !read_dims(b, text, "rhs_contracting_dimensions", rank(rhs), contracted[1]))
    return;
  if (batch[0].size() != batch[1].size() || contracted[0].size() != contracted[1].size() ||
      lhs.size() + rhs.size() != out.size() + batch[0].size() + 2 * contracted[0].size())
    return reject(b, "the dims of a product do not fit its tensors");
  int64_t dim = 0;
  for (size_t i = 0; i < batch[0].size(); ++i) {
    add_factor(b, lhs[static_cast<size_t>(batch[0][i])]);
    map_dim(b, 0, batch[0][i]);
    map_dim(b, 1, batch[1][i]);
    map_dim(b, 2, dim++);
  }
  for (const uint32_t side : {0U, 1U}) {
    const std::span<const int64_t> shape = side == 0 ? lhs : rhs;
    for (int64_t i = 0; i < rank(shape); ++i) {
      if (is_in(batch[side], i) || is_in(contracted[side], i)) continue;
      add_factor(b, shape[static_cast<size_t>(i)]);
      map_dim(b, side, i);
      map_dim(b, 2, dim++);
    }
  }
  for (size_t i = 0; i < contracted[0].size(); ++i) {
    add_factor(b, lhs[static_cast<size_t>(contracted[0][i])], FactorKind::Reduce);
    map_dim(b, 0, contracted[0][i]);
    map_dim(b, 1, contracted[1][i]);
  }
}

void build_convolution(RuleBuilder& b) {
  ConvDims groups[3];
  int64_t batch_groups = 1, feature_groups = 1;
  if (!expect_counts(b, 2, 1) || !read_attribute(b, "batch_group_count", batch_groups) ||
      !read_attribute(b, "feature_group_count", feature_groups))
    return;
  const auto& [input, kernel, output] = groups;
  const auto fits = [&](const ConvDims& group, uint32_t tensor, int64_t first, int64_t second) {
    return first != kUnmapped && second != kUnmapped && group.spatial.size() + 2 == tensor_shape(b, tensor).size();
  };
  if (!read_conv_dims(attribute_of(b.program, b.operation, "dimension_numbers"), groups) ||
      !fits(input, 0, input.batch, input.feature) || !fits(kernel, 1, kernel.input, kernel.output) ||
      !fits(output, 2, output.batch, output.feature) || input.spatial.size() != kernel.spatial.size() ||
      input.spatial.size() != output.spatial.size() || batch_groups < 1 || feature_groups < 1)
    return reject(b, "`dimension_numbers` do not fit the tensors of a convolution");
  const std::span<const int64_t> in = tensor_shape(b, 0), weights = tensor_shape(b, 1), out = tensor_shape(b, 2);
  const auto size = [](std::span<const int64_t> shape, int64_t dim) { return shape[static_cast<size_t>(dim)]; };
  const auto add = [&](int64_t length, int64_t first, int64_t second, int64_t third, FactorKind kind) {
    add_factor(b, length, kind);
    map_dim(b, 0, first);
    map_dim(b, 1, second);
    map_dim(b, 2, third);
  };
  if (batch_groups > 1) add(batch_groups, input.batch, kernel.output, output.feature, FactorKind::Pass);
  add(size(out, output.batch), input.batch, kUnmapped, output.batch, FactorKind::Pass);
  for (size_t i = 0; i < input.spatial.size(); ++i) {
    // An input dim is sharded over windows or over the window; the larger one is major.
    const int64_t windows = size(out, output.spatial[i]), window = size(weights, kernel.spatial[i]);
    int64_t left = size(in, input.spatial[i]);
    for (const bool is_window : {windows < window, windows >= window}) {
      const int64_t length = std::min(left, is_window ? window : windows);
      if (length <= 1) continue;
      if (is_window)
        add(length, input.spatial[i], kernel.spatial[i], kUnmapped, FactorKind::Reduce);
      else
        add(length, input.spatial[i], kUnmapped, output.spatial[i], FactorKind::Permute);
      left /= length;
    }
  }
  if (feature_groups > 1) add(feature_groups, input.feature, kernel.output, output.feature, FactorKind::Pass);
  add(size(weights, kernel.input), input.feature, kernel.input, kUnmapped, FactorKind::Reduce);
  add(size(out, output.feature) / batch_groups / feature_groups, kUnmapped, kernel.output, output.feature,
      FactorKind::Pass);
}

void build_reduce(RuleBuilder& b) {
  std::vector<int64_t> dims;
  const uint32_t count = b.operation.result_count;
  if (count == 0 || !expect_counts(b, 2 * count, count) || !read_attribute(b, "dimensions", dims)) return;
  const std::span<const int64_t> shape = tensor_shape(b, 0);
  const size_t reduced = static_cast<size_t>(
      std::ranges::count_if(dims, [&](int64_t dim) { return dim >= 0 && dim < static_cast<int64_t>(shape.size()); }));
  if (reduced != dims.size() || reduced > shape.size())
    return reject(b, "`dimensions` are not dims of the input of a reduction");
  for (uint32_t i = 0; i < count; ++i) {
    if (!expect_rank(b, i, shape.size()) || !expect_rank(b, count + i, 0) ||
        !expect_rank(b, 2 * count + i, shape.size() - reduced))
      return;
  }
  int64_t out = 0;
  for (int64_t dim = 0; dim < static_cast<int64_t>(shape.size()); ++dim) {
    const bool is_reduced = is_in(dims, dim);
    add_factor(b, shape[static_cast<size_t>(dim)], is_reduced ? FactorKind::Reduce : FactorKind::Pass);
    for (uint32_t i = 0; i < count; ++i) {
      map_dim(b, i, dim);
      if (!is_reduced) map_dim(b, 2 * count + i, out);
    }
    if (!is_reduced) ++out;
  }
}

// Slices and pads: dims whose size changes need elements of other ranks.
void build_slice(RuleBuilder& b) {
  const std::span<const int64_t> in = tensor_shape(b, 0), out = tensor_shape(b, inputs_of(b));
  if (in.size() != out.size()) return reject(b, fmt::format("{} changes the number of dims", b.operation.name));
  add_dims(b, in, [&](size_t dim) { return in[dim] == out[dim] ? FactorKind::Pass : FactorKind::Permute; });
}

void build_concatenate(RuleBuilder& b) {
  int64_t dimension = 0;
  if (b.operation.result_count != 1 || inputs_of(b) == 0) return reject(b, "concatenate has no operand or no result");
  if (!read_attribute(b, "dimension", dimension)) return;
  bool are_slices = true;
  for (uint32_t i = 0; i < inputs_of(b); ++i) {
    const OperationIndex maker = b.program.values[tensor_of(b.program, b.operation, i)].maker;
    are_slices &= maker != kNoIndex && b.program.operations[maker].name == "stablehlo.slice";
  }
  add_dims(b, tensor_shape(b, inputs_of(b)), [&](size_t dim) {
    return static_cast<int64_t>(dim) != dimension ? FactorKind::Pass
           : are_slices                           ? FactorKind::Permute
                                                  : FactorKind::Replicate;
  });
}

void build_sort(RuleBuilder& b) {
  int64_t dimension = 0;
  if (b.operation.result_count == 0) return reject(b, "sort has no result");
  if (!read_attribute(b, "dimension", dimension)) return;
  const std::span<const int64_t> shape = tensor_shape(b, 0);
  bool has_batch = false;
  for (size_t dim = 0; dim < shape.size(); ++dim) has_batch |= static_cast<int64_t>(dim) != dimension && shape[dim] > 1;
  for (uint32_t i = 0; i < tensors_of(b); ++i) {
    if (!expect_rank(b, i, shape.size())) return;
  }
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    const bool is_sorted = static_cast<int64_t>(dim) == dimension;
    add_factor(b, shape[dim], is_sorted ? FactorKind::Replicate : FactorKind::Pass, is_sorted && !has_batch);
    map_all(b, static_cast<int64_t>(dim));
  }
}

void build_top_k(RuleBuilder& b) {
  if (!expect_counts(b, 1, 2)) return;
  const std::span<const int64_t> in = tensor_shape(b, 0), out = tensor_shape(b, 1);
  if (in.empty() || !expect_rank(b, 1, in.size()) || !expect_rank(b, 2, in.size())) return;
  for (size_t dim = 0; dim < in.size(); ++dim) {
    const bool is_last = dim + 1 == in.size();
    add_factor(b, is_last ? in[dim] : out[dim], is_last ? FactorKind::Replicate : FactorKind::Pass, is_last);
    map_all(b, static_cast<int64_t>(dim));
  }
}

// The state is never sharded; each dim of the output has a factor of its own.
void build_random(RuleBuilder& b) {
  if (!expect_counts(b, 1, 2) || !expect_rank(b, 1, tensor_shape(b, 0).size())) return;
  const std::span<const int64_t> state = tensor_shape(b, 0), out = tensor_shape(b, 2);
  for (size_t dim = 0; dim < state.size(); ++dim) {
    add_factor(b, state[dim], FactorKind::Replicate, true);
    map_dim(b, 0, static_cast<int64_t>(dim));
    map_dim(b, 1, static_cast<int64_t>(dim));
  }
  for (size_t dim = 0; dim < out.size(); ++dim) {
    add_factor(b, out[dim]);
    map_dim(b, 2, static_cast<int64_t>(dim));
  }
}

// Windows of one operand: the dims of the results count windows.
void build_window(RuleBuilder& b) {
  const uint32_t count = b.operation.result_count;
  if (count == 0 || !expect_counts(b, 2 * count, count)) return;
  const std::span<const int64_t> in = tensor_shape(b, 0), out = tensor_shape(b, 2 * count);
  std::vector<int64_t> window;
  if (!read_attribute(b, "window_dimensions", window)) return;
  if (window.size() != out.size()) return reject(b, "`window_dimensions` do not fit the tensors of reduce_window");
  for (uint32_t i = 0; i < count; ++i) {
    if (!expect_rank(b, i, out.size()) || !expect_rank(b, count + i, 0) || !expect_rank(b, 2 * count + i, out.size()))
      return;
  }
  for (size_t dim = 0; dim < out.size(); ++dim) {
    const bool is_windowed = in[dim] != out[dim] || window[dim] != 1;
    add_factor(b, out[dim], is_windowed ? FactorKind::Permute : FactorKind::Pass);
    map_all(b, static_cast<int64_t>(dim));
  }
}

void build_select_and_scatter(RuleBuilder& b) {
  if (!expect_counts(b, 3, 1)) return;
  const std::span<const int64_t> in = tensor_shape(b, 0), source = tensor_shape(b, 1);
  if (!expect_rank(b, 1, in.size()) || !expect_rank(b, 3, in.size())) return;
  for (size_t i = 0; i < in.size(); ++i) {
    const auto dim = static_cast<int64_t>(i);
    const bool is_windowed = in[i] != source[i];
    add_factor(b, in[i], is_windowed ? FactorKind::Permute : FactorKind::Pass);
    map_dim(b, 0, dim);
    map_dim(b, 3, dim);
    if (is_windowed) add_factor(b, source[i], FactorKind::Replicate);
    map_dim(b, 1, dim);
  }
}

// Walks over the dims of both shapes: what they have in common is a factor, the rest belongs to one side only until
// both products are equal again.
void build_reshape(RuleBuilder& b) {
  if (!expect_counts(b, 1, 1)) return;
  const std::span<const int64_t> shapes[] = {tensor_shape(b, 0), tensor_shape(b, 1)};
  if (b.program.values[tensor_of(b.program, b.operation, 0)].elements !=
      b.program.values[tensor_of(b.program, b.operation, 1)].elements)
    return reject(b, "a reshape changes the number of elements");
  if (std::ranges::count(shapes[0], 0) > 0) {
    b.exists = false;
    return;
  }
  size_t dim[2] = {0, 0};
  int64_t sizes[2] = {1, 1}, done[2] = {1, 1};  // products of the dims that were begun, and of the factors
  const auto add = [&](int64_t size, bool in, bool out) {
    add_factor(b, size);
    if (in) map_dim(b, 0, static_cast<int64_t>(dim[0]));
    if (out) map_dim(b, 1, static_cast<int64_t>(dim[1]));
    if (in) done[0] *= size;
    if (out) done[1] *= size;
  };
  while (dim[0] < shapes[0].size() || dim[1] < shapes[1].size()) {
    bool is_single = false;
    for (const int side : {0, 1}) {
      if (is_single || dim[side] == shapes[side].size() || shapes[side][dim[side]] != 1) continue;
      add(1, side == 0, side == 1);
      ++dim[side];
      is_single = true;
    }
    if (is_single) continue;
    for (const int side : {0, 1}) {
      if (dim[side] < shapes[side].size() && sizes[side] == done[side]) sizes[side] *= shapes[side][dim[side]];
    }
    const int64_t next[] = {sizes[0] / done[0], sizes[1] / done[1]};
    const int64_t common = std::gcd(next[0], next[1]);
    if (done[0] == done[1]) {
      if (common > 1) {
        add(common, true, true);
      } else {
        add(next[0], true, false);
        add(next[1], false, true);
      }
    } else {
      const int behind = done[0] < done[1] ? 0 : 1;
      const int64_t less = done[behind], more = done[1 - behind];
      int64_t size = next[behind];
      if (more % less == 0 && size % (more / less) == 0)
        size = more / less;
      else if (size > common)
        size /= common;
      add(size, behind == 0, behind == 1);
    }
    for (const int side : {0, 1}) {
      if (dim[side] < shapes[side].size() && sizes[side] == done[side]) ++dim[side];
    }
  }
}

}  // namespace tpplan::programs
