#include "walk/dtensor/matmul_views.h"

#include <algorithm>
#include <string>

#include "walk/dtensor/dtensor_views.h"

namespace tpplan {
namespace {

// Merges all dims but the last `last_dims`.
std::vector<int64_t> folded(std::span<const int64_t> shape, size_t last_dims) {
  std::vector<int64_t> out(shape.end() - static_cast<std::ptrdiff_t>(last_dims), shape.end());
  int64_t rows = 1;
  for (size_t i = 0; i + last_dims < shape.size(); ++i) rows *= shape[i];
  out.insert(out.begin(), rows);
  return out;
}

}  // namespace

MatmulViews linear_views(std::span<const std::vector<int64_t>> shapes, std::span<const int64_t> out) {
  MatmulViews views{.operands = {folded(shapes[0], 1), shapes[1]},
                    .out = folded(out, 1),
                    .dims = {{.a = 1, .b = 1}, {.a = 0, .out = 0}, {.b = 0, .out = 1}},
                    .bias = shapes.size() > 2};
  if (views.bias) views.operands.push_back(shapes[2]);
  return views;
}

MatmulViews matmul_views(std::span<const std::vector<int64_t>> shapes, std::span<const int64_t> result) {
  std::vector<int64_t> a = shapes[0], b = shapes[1], out(result.begin(), result.end());
  // A vector is a matrix of one row as first operand and of one column as second. The result does not have this dim.
  const bool is_row = a.size() == 1, is_column = b.size() == 1;
  if (is_row) a.insert(a.begin(), 1);
  if (is_column) b.push_back(1);
  if (is_column) out.push_back(1);
  if (is_row) out.insert(out.end() - 1, 1);
  if (a.size() >= 2 && b.size() == 2)
    return {.operands = {folded(a, 1), b},
            .out = folded(out, 1),
            .dims = {{.a = 1, .b = 0}, {.a = 0, .out = 0}, {.b = 1, .out = 1}}};
  // Batch dims are broadcast before they are merged.
  std::vector<int64_t> batch_a = out, batch_b = out;
  std::copy(a.end() - 2, a.end(), batch_a.end() - 2);
  std::copy(b.end() - 2, b.end(), batch_b.end() - 2);
  return {.operands = {folded(batch_a, 2), folded(batch_b, 2)},
          .out = folded(out, 2),
          .dims = {{.a = 0, .b = 0, .out = 0}, {.a = 2, .b = 1}, {.a = 1, .out = 1}, {.b = 2, .out = 2}}};
}

Placement placement_of_view(const Placement& at, std::span<const int64_t> from, std::span<const int64_t> to,
                            int64_t ranks) {
  std::string ignored;
  const auto one = view_placement(at, from, to, ranks, ignored);
  return one ? one->out : Placement{};
}

}  // namespace tpplan
