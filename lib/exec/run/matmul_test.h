// The operands of one module's matmul on this rank: their layouts and test data.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exec/ranks/backend.h"
#include "exec/run/exact_tensor.h"
#include "exec/run/list_matmuls.h"
#include "exec/run/matmul_result.h"

namespace tpplan {

// The state of one matmul test on one rank. Layouts have an entry for each mesh axis; dims are [batch, tokens,
// features].
struct MatmulTest {
  Comm& comm;
  const Manifest& manifest;
  const Mesh& mesh;
  const ModuleMatmul& matmul;
  int64_t batch = 1, tokens = 1, in = 0, out = 0;
  DType float32 = 0;
  std::vector<int64_t> coordinate;
  PartitionSpec weight_spec;                         // without FSDP's axis
  std::vector<Placement> x_from, x_to;               // of x
  std::vector<Placement> y_from, y_to;               // of y
  std::optional<GradientLayouts> dx, dy;             // of their gradients, as the boundary declares them
  std::vector<std::vector<int64_t>> weight_indices;  // by the weight's dims: global indices of the rank's part
};

// Determines all layouts. Returns false with the reason in `result` if the boundary does not fit the weight.
[[nodiscard]] bool set_matmul_layouts(MatmulTest& w, MatmulResult& result);

// Returns the first value of a boundary that has layouts, or nullptr.
[[nodiscard]] const ManifestValue* first_value(const std::vector<ManifestValue>& values);
[[nodiscard]] inline Placement shard(int dim) { return {.kind = PlacementKind::Shard, .dim = dim}; }
// Sets `placement` on each of the axes.
void put(std::vector<Placement>& placements, const DimAxes& axes, const Placement& placement);
// Returns the layout that the matmul needs for x, with batch and tokens as in `rows`.
[[nodiscard]] std::vector<Placement> required_x_layout(const MatmulTest& w, std::vector<Placement> rows);

// ---- test data, by global indices; `row` counts the tokens of the whole batch ----

using MatmulValueFunction = int (*)(const MatmulTest& w, int64_t row, int64_t feature);
[[nodiscard]] int x_value(const MatmulTest& w, int64_t row, int64_t in);
[[nodiscard]] int dy_value(const MatmulTest& w, int64_t row, int64_t out);
// The weight is u1(out) v1(in) + u2(out) v2(in), from -2 to 2: a matmul with it needs sums over `in` or `out` only.
// `factor` returns u1 or v1 for kFactorU or kFactorV, and u2 or v2 for one more.
inline constexpr uint64_t kFactorU = 3, kFactorV = 5;
[[nodiscard]] int factor(uint64_t which, int64_t index);
[[nodiscard]] int weight_value(int64_t out, int64_t in);

// ---- activations on this rank ----

[[nodiscard]] LocalTensor make_tensor(const MatmulTest& w, std::string name, int64_t features,
                                      std::vector<Placement> placements);
// Returns the rank's intervals of batch, tokens and features.
[[nodiscard]] std::vector<Interval> activation_intervals(const MatmulTest& w, const LocalTensor& tensor);
// Returns the rank's tokens as rows of the global batch.
[[nodiscard]] std::vector<int64_t> rows_in(const MatmulTest& w, const std::vector<Interval>& intervals);
// Returns the global features of an activation whose last dim is dim `dim` of the weight. If both have the same
// sharding, these are the weight's indices (several intervals for a fused weight); otherwise the interval of the
// activation.
[[nodiscard]] std::vector<int64_t> features_in(const MatmulTest& w, const LocalTensor& tensor, size_t dim);
[[nodiscard]] std::vector<int64_t> indices_of(std::span<const Interval> runs);
// Allocates and fills the tensor. Along a Partial axis the first rank has the values and the others zeros.
[[nodiscard]] bool make_filled_tensor(MatmulTest& w, LocalTensor& tensor, MatmulValueFunction value, size_t dim);
[[nodiscard]] std::vector<float> read_floats(const MatmulTest& w, const LocalTensor& tensor);

}  // namespace tpplan
