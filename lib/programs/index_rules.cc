// Rules of operations that address their operand by indices: dynamic slices, gather, scatter.
#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "programs/attribute_text.h"
#include "programs/operation_rules.h"

namespace tpplan::programs {
namespace {

bool is_constant(const Program& program, ValueIndex value) {
  const OperationIndex maker = program.values[value].maker;
  return maker != kNoIndex && program.operations[maker].kind == OperationClass::Constant;
}

// True if the inputs from `first` on are scalars; rejects the operation otherwise.
bool expect_scalars(RuleBuilder& b, uint32_t first) {
  for (uint32_t i = first; i < inputs_of(b); ++i) {
    if (!expect_rank(b, i, 0)) return false;
  }
  return true;
}

// The dims of gather and scatter by role. `slices` is the result of a gather, the updates of a scatter.
struct IndexDims {
  std::vector<int64_t> window;                // of slices: they run along the input
  std::vector<int64_t> collapsed;             // of the input
  std::vector<int64_t> batch, indices_batch;  // of the input and of the indices, in pairs
  int64_t vector = 0;                         // of the indices: the dim with the coordinates
};

// What the rules do for each dim that they find: dims of the input, of the indices and of the slices, kUnmapped
// without.
struct IndexedDim {
  int64_t input = kUnmapped, indices = kUnmapped, slices = kUnmapped;
  int64_t size = 1;
  enum { Whole, Cut, CutSlices, Collapsed, Batch, SharedBatch } role = Whole;
};

// Lists the dims of the input, the indices and the slices. Rejects the operation if they do not fit.
bool list_dims(RuleBuilder& b, const IndexDims& dims, std::span<const int64_t> input, size_t indices_rank,
               std::span<const int64_t> slices, std::vector<IndexedDim>& list) {
  size_t next_input = 0, next_indices = 0;
  for (size_t i = 0; i < slices.size(); ++i) {
    const auto slice = static_cast<int64_t>(i);
    if (is_in(dims.window, slice)) {
      while (next_input < input.size() && (is_in(dims.collapsed, static_cast<int64_t>(next_input)) ||
                                           is_in(dims.batch, static_cast<int64_t>(next_input))))
        ++next_input;
      if (next_input == input.size()) {
        reject(b, fmt::format("the dims of {} do not fit its tensors", b.operation.name));
        return false;
      }
      const auto dim = static_cast<int64_t>(next_input);
      const int64_t size = input[next_input++];
      if (size == slices[i]) {
        list.push_back({.input = dim, .slices = slice, .size = size});
      } else {
        list.push_back({.input = dim, .size = size, .role = IndexedDim::Cut});
        list.push_back({.slices = slice, .size = slices[i], .role = IndexedDim::CutSlices});
      }
      continue;
    }
    if (static_cast<int64_t>(next_indices) == dims.vector) ++next_indices;
    if (next_indices >= indices_rank) {
      reject(b, fmt::format("the dims of {} do not fit its tensors", b.operation.name));
      return false;
    }
    const auto index = static_cast<int64_t>(next_indices++);
    const auto found = std::ranges::find(dims.indices_batch, index);
    if (found == dims.indices_batch.end()) {
      list.push_back({.indices = index, .slices = slice, .size = slices[i], .role = IndexedDim::Batch});
    } else {
      const int64_t dim = dims.batch[static_cast<size_t>(found - dims.indices_batch.begin())];
      list.push_back(
          {.input = dim, .indices = index, .slices = slice, .size = slices[i], .role = IndexedDim::SharedBatch});
    }
  }
  for (const int64_t dim : dims.collapsed)
    list.push_back({.input = dim, .size = input[static_cast<size_t>(dim)], .role = IndexedDim::Collapsed});
  return true;
}

// Reads the dims of gather or scatter, whose fields have these names.
bool read_index_dims(RuleBuilder& b, std::string_view text, std::string_view window, std::string_view collapsed,
                     std::string_view batch, std::string_view indices_batch, size_t slices_rank, size_t input_rank,
                     size_t indices_rank, IndexDims& dims) {
  const std::string_view vector = find_field(text, "index_vector_dim");
  if (!vector.empty() && !read_integer(vector, dims.vector)) {
    reject(b, fmt::format("`index_vector_dim` of {} is not an integer", b.operation.name));
    return false;
  }
  if (!read_dims(b, text, window, static_cast<int64_t>(slices_rank), dims.window) ||
      !read_dims(b, text, collapsed, static_cast<int64_t>(input_rank), dims.collapsed) ||
      !read_dims(b, text, batch, static_cast<int64_t>(input_rank), dims.batch) ||
      !read_dims(b, text, indices_batch, static_cast<int64_t>(indices_rank), dims.indices_batch))
    return false;
  if (dims.batch.size() == dims.indices_batch.size()) return true;
  reject(b, fmt::format("{} has different numbers of batching dims", b.operation.name));
  return false;
}

// Adds the factor of the dim of the indices with the coordinates.
void add_vector_dim(RuleBuilder& b, const IndexDims& dims, uint32_t indices) {
  const std::span<const int64_t> shape = tensor_shape(b, indices);
  if (dims.vector < 0 || dims.vector >= static_cast<int64_t>(shape.size())) return;
  add_factor(b, shape[static_cast<size_t>(dims.vector)], FactorKind::Replicate);
  map_dim(b, indices, dims.vector);
}

}  // namespace

void build_dynamic_slice(RuleBuilder& b) {
  if (inputs_of(b) == 0 || b.operation.result_count != 1) return reject(b, "dynamic_slice has no operand or result");
  const std::span<const int64_t> in = tensor_shape(b, 0), out = tensor_shape(b, inputs_of(b));
  if (!expect_rank(b, inputs_of(b), in.size()) || !expect_scalars(b, 1)) return;
  for (size_t i = 0; i < in.size(); ++i) {
    const bool is_sliced = in[i] != out[i];
    add_factor(b, in[i], is_sliced ? FactorKind::Replicate : FactorKind::Pass, is_sliced);
    map_dim(b, 0, static_cast<int64_t>(i));
    map_dim(b, inputs_of(b), static_cast<int64_t>(i));
  }
}

void build_dynamic_update_slice(RuleBuilder& b) {
  if (inputs_of(b) < 2 || b.operation.result_count != 1)
    return reject(b, "dynamic_update_slice has no update or result");
  const std::span<const int64_t> in = tensor_shape(b, 0), update = tensor_shape(b, 1);
  if (!expect_rank(b, 1, in.size()) || !expect_rank(b, inputs_of(b), in.size()) || !expect_scalars(b, 2)) return;
  bool is_fixed = true;  // the place of the update is known
  for (uint32_t i = 2; i < inputs_of(b); ++i) is_fixed &= is_constant(b.program, tensor_of(b.program, b.operation, i));
  for (size_t i = 0; i < in.size(); ++i) {
    const auto dim = static_cast<int64_t>(i);
    add_factor(b, in[i]);
    map_dim(b, 0, dim);
    map_dim(b, inputs_of(b), dim);
    if (in[i] != update[i]) add_factor(b, update[i], is_fixed ? FactorKind::Pass : FactorKind::Replicate);
    map_dim(b, 1, dim);
  }
}

void build_gather(RuleBuilder& b) {
  if (!expect_counts(b, 2, 1)) return;
  const std::span<const int64_t> input = tensor_shape(b, 0), indices = tensor_shape(b, 1), out = tensor_shape(b, 2);
  IndexDims dims;
  std::vector<IndexedDim> list;
  if (!read_index_dims(b, attribute_of(b.program, b.operation, "dimension_numbers"), "offset_dims",
                       "collapsed_slice_dims", "operand_batching_dims", "start_indices_batching_dims", out.size(),
                       input.size(), indices.size(), dims) ||
      !list_dims(b, dims, input, indices.size(), out, list))
    return;
  for (const IndexedDim& dim : list) {
    const bool is_single = dim.slices != kUnmapped && dim.size == 1;
    FactorKind kind = FactorKind::Pass;
    if (dim.role == IndexedDim::Collapsed) kind = dim.size == 1 ? FactorKind::Replicate : FactorKind::Reduce;
    if (dim.role == IndexedDim::Cut) {
      // The slice has one element of this dim, or more: then no rank has all of them.
      const auto next = &dim + 1;
      kind = next->size == 1 ? FactorKind::Reduce : FactorKind::Replicate;
    }
    if (dim.role == IndexedDim::CutSlices) kind = is_single ? FactorKind::Pass : FactorKind::Replicate;
    add_factor(b, dim.size, kind, kind == FactorKind::Replicate);
    map_dim(b, 0, dim.input);
    map_dim(b, 1, dim.indices);
    map_dim(b, 2, dim.slices);
  }
  add_vector_dim(b, dims, 1);
}

void build_scatter(RuleBuilder& b) {
  const uint32_t count = b.operation.result_count;
  if (count == 0 || !expect_counts(b, 2 * count + 1, count)) return;
  const std::span<const int64_t> input = tensor_shape(b, 0), indices = tensor_shape(b, count),
                                 updates = tensor_shape(b, count + 1);
  for (uint32_t i = 0; i < count; ++i) {
    if (!expect_rank(b, i, input.size()) || !expect_rank(b, count + 1 + i, updates.size()) ||
        !expect_rank(b, 2 * count + 1 + i, input.size()))
      return;
  }
  IndexDims dims;
  std::vector<IndexedDim> list;
  if (!read_index_dims(b, attribute_of(b.program, b.operation, "scatter_dimension_numbers"), "update_window_dims",
                       "inserted_window_dims", "input_batching_dims", "scatter_indices_batching_dims", updates.size(),
                       input.size(), indices.size(), dims) ||
      !list_dims(b, dims, input, indices.size(), updates, list))
    return;
  // Partial results can be combined if the body is one of these operations.
  static constexpr std::string_view kCombining[] = {"stablehlo.add",     "stablehlo.multiply", "stablehlo.minimum",
                                                    "stablehlo.maximum", "stablehlo.and",      "stablehlo.or"};
  const std::string_view body = attribute_of(b.program, b.operation, "body");
  const bool is_combined = body.ends_with(",stablehlo.return") &&
                           std::ranges::find(kCombining, body.substr(0, body.find(','))) != std::end(kCombining) &&
                           std::ranges::count(body, ',') == 1;
  for (const IndexedDim& dim : list) {
    FactorKind kind = FactorKind::Pass;
    if (dim.role == IndexedDim::Cut || dim.role == IndexedDim::CutSlices) kind = FactorKind::Replicate;
    if (dim.role == IndexedDim::Batch) kind = is_combined ? FactorKind::Reduce : FactorKind::Replicate;
    add_factor(b, dim.size, kind);
    map_dim(b, count, dim.indices);
    for (uint32_t i = 0; i < count; ++i) {
      map_dim(b, i, dim.input);
      map_dim(b, count + 1 + i, dim.slices);
      map_dim(b, 2 * count + 1 + i, dim.input);
    }
  }
  add_vector_dim(b, dims, count);
}

}  // namespace tpplan::programs
