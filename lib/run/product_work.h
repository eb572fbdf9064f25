// What a product of one module works on: how everything is laid out on this rank, and the test data it multiplies.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ranks/backend.h"
#include "run/exact_tensor.h"
#include "run/list_products.h"
#include "run/run_products.h"

namespace tpplan {

// What one rank works on: layouts have an entry for each mesh axis; dims are [batch, tokens, features].
struct ProductWork {
  Comm& comm;
  const Manifest& manifest;
  const Mesh& mesh;
  const ModuleProduct& product;
  int64_t batch = 1, tokens = 1, in = 0, out = 0;
  DType float32 = 0;
  std::vector<int64_t> coordinate;
  PartitionSpec weight_spec;                         // without FSDP's axis
  std::vector<Placement> x_from, x_to;               // of x
  std::vector<Placement> y_from, y_to;               // of y
  std::optional<GradientLayouts> dx, dy;             // of their gradients, as the boundary says
  std::vector<std::vector<int64_t>> weight_indices;  // by the weight's dims: global indices of the rank's part
};

// Lays everything out; false, with the reason in `result`, when the boundary does not fit the weight.
[[nodiscard]] bool lay_out_product(ProductWork& w, ProductResult& result);

// The first value of a boundary that has layouts, or nullptr.
[[nodiscard]] const ManifestValue* first_value(const std::vector<ManifestValue>& values);
[[nodiscard]] inline Placement shard(int dim) { return {.kind = PlacementKind::Shard, .dim = dim}; }
// `placement` on each of the axes.
void put(std::vector<Placement>& placements, const DimAxes& axes, const Placement& placement);
// The layout that the product itself needs for x, its tokens laid out as in `rows`.
[[nodiscard]] std::vector<Placement> x_needed(const ProductWork& w, std::vector<Placement> rows);

// ---- test data, by global indices; `row` counts the tokens of the whole batch ----

using ProductValue = int (*)(const ProductWork& w, int64_t row, int64_t feature);
[[nodiscard]] int x_value(const ProductWork& w, int64_t row, int64_t in);
[[nodiscard]] int dy_value(const ProductWork& w, int64_t row, int64_t out);
// u1(out) v1(in) + u2(out) v2(in), from -2 to 2, so that a whole product takes sums over `in` or `out` alone. `factor`
// is u or v number 1 (kFactorU, kFactorV) and 2 (one more).
inline constexpr uint64_t kFactorU = 3, kFactorV = 5;
[[nodiscard]] int factor(uint64_t which, int64_t index);
[[nodiscard]] int weight_value(int64_t out, int64_t in);

// ---- activations on this rank ----

[[nodiscard]] LocalTensor make_tensor(const ProductWork& w, std::string name, int64_t features,
                                      std::vector<Placement> placements);
// The rank's box: batch, tokens, features.
[[nodiscard]] std::vector<Interval> activation_box(const ProductWork& w, const LocalTensor& tensor);
// The rank's tokens, as rows of the whole batch.
[[nodiscard]] std::vector<int64_t> rows_in(const ProductWork& w, const std::vector<Interval>& intervals);
// The global features of an activation whose last dim is the weight's dim `dim`: where it is cut as the weight is, the
// weight's indices (those of a packed weight are several runs), else its box.
[[nodiscard]] std::vector<int64_t> features_in(const ProductWork& w, const LocalTensor& tensor, size_t dim);
[[nodiscard]] std::vector<int64_t> indices_of(std::span<const Interval> runs);
// Allocates the tensor and fills it; where the layout is Partial, the first rank of the axis holds the values and the
// others zeros.
[[nodiscard]] bool make_filled(ProductWork& w, LocalTensor& tensor, ProductValue value, size_t dim);
[[nodiscard]] std::vector<float> floats_of(const ProductWork& w, const LocalTensor& tensor);

}  // namespace tpplan
