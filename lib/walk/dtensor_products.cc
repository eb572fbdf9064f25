#include "walk/dtensor_products.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "walk/causes.h"
#include "walk/dtensor_views.h"
#include "walk/slots.h"

namespace tpplan {
namespace {

// Each operand as the product sees it, and the result.
struct Folds {
  std::vector<std::vector<int64_t>> operands;
  std::vector<int64_t> out;
  std::vector<ProductDim> dims;
  bool bias = false;
};

std::vector<int64_t> folded(std::span<const int64_t> shape, size_t kept) {
  std::vector<int64_t> out(shape.end() - static_cast<std::ptrdiff_t>(kept), shape.end());
  int64_t rows = 1;
  for (size_t i = 0; i + kept < shape.size(); ++i) rows *= shape[i];
  out.insert(out.begin(), rows);
  return out;
}

void refuse_fold(DtensorRun& run, size_t operand, const std::string& fault) {
  crash_at(run.walk, Code::TP5103,
           fmt::format("{} views its operand, a DTensor that is {}, as a matrix: {}", run.name,
                       to_text(std::span<const Placement>(claim_of(run, operand))), fault),
           run.rule, kNoRule, std::string(run.name));
}

// The placement behind the view, or its reverse; whole where none is.
Placement folded_placement(const Placement& at, std::span<const int64_t> from, std::span<const int64_t> to,
                           int64_t ranks) {
  std::string ignored;
  const auto one = viewed(at, from, to, ranks, ignored);
  return one ? one->out : Placement{};
}

// Chooses a way along one axis in terms of the folded operands, and says it in terms of the operands themselves.
std::optional<Way> product_way(DtensorRun& run, const Folds& folds, size_t axis) {
  const auto ranks = static_cast<int64_t>(run.walk.table.maps.axes[axis]);
  const std::vector<Face> faces = faces_of(run, axis);
  std::vector<Face> seen = faces;
  for (size_t i = 0; i < seen.size(); ++i) {
    if (seen[i].shape == folds.operands[i]) continue;
    std::string fault;
    const auto one = viewed(faces[i].at, faces[i].shape, folds.operands[i], ranks, fault);
    if (!one) {
      refuse_fold(run, i, fault);
      return std::nullopt;
    }
    seen[i].shape = folds.operands[i];
    seen[i].at = one->out;
  }
  auto way = choose_way(product_ways(seen, folds.dims, folds.bias), seen, {.ranks = ranks});
  if (!way) return way;
  const auto out = claimed_out_shape(run);
  way->out = folded_placement(way->out, folds.out, out, ranks);
  for (size_t i = 0; i < seen.size(); ++i) {
    if (way->ins[i] == seen[i].at)
      way->ins[i] = faces[i].at;
    else
      way->ins[i] = folded_placement(way->ins[i], seen[i].shape, faces[i].shape, ranks);
  }
  return way;
}

void run_product(DtensorRun& run, const Folds& folds) {
  std::vector<std::optional<Way>> ways;
  for (size_t axis = 0; axis < run.claim.size(); ++axis) {
    ways.push_back(product_way(run, folds, axis));
    if (run.walk.crash != kNoId) return;
  }
  if (bring_all(run, ways)) settle(run);
}

}  // namespace

void run_linear(DtensorRun& run) {
  Folds folds{.operands = {folded(claimed_shape(run, 0), 1), claimed_shape(run, 1)},
              .out = folded(claimed_out_shape(run), 1),
              .dims = {{.a = 1, .b = 1}, {.a = 0, .out = 0}, {.b = 0, .out = 1}},
              .bias = run.slots.size() > 2};
  if (folds.bias) folds.operands.push_back(claimed_shape(run, 2));
  run_product(run, folds);
}

void run_matmul(DtensorRun& run) {
  const std::vector<int64_t> a = claimed_shape(run, 0), b = claimed_shape(run, 1);
  Folds folds{.operands = {a, b}, .out = claimed_out_shape(run), .dims = {}};
  if (a.size() >= 2 && b.size() == 2) {
    folds.operands[0] = folded(a, 1);
    folds.out = folded(folds.out, 1);
    folds.dims = {{.a = 1, .b = 0}, {.a = 0, .out = 0}, {.b = 1, .out = 1}};
  } else {
    // Batch dims are expanded to be alike before they are folded.
    std::vector<int64_t> batch_a = folds.out, batch_b = folds.out;
    std::copy(a.end() - 2, a.end(), batch_a.end() - 2);
    std::copy(b.end() - 2, b.end(), batch_b.end() - 2);
    folds.operands = {folded(batch_a, 2), folded(batch_b, 2)};
    folds.out = folded(folds.out, 2);
    folds.dims = {{.a = 0, .b = 0, .out = 0}, {.a = 2, .b = 1}, {.a = 1, .out = 1}, {.b = 2, .out = 2}};
  }
  run_product(run, folds);
}

void run_embedding(DtensorRun& run) {
  Walk& walk = run.walk;
  const Placement mask{.kind = PlacementKind::Partial, .op = ReduceOp::Mask};
  const size_t ndim = claimed_shape(run, 0).size();
  std::vector<std::optional<Way>> ways;
  size_t masks = 0;
  for (size_t axis = 0; axis < run.claim.size(); ++axis) {
    std::vector<Way> all{whole_way(2), {shard_of(ndim), {{}, shard_of(1)}}, {mask, {mask, shard_of(0)}}};
    for (size_t dim = 0; dim < ndim; ++dim) all.push_back({shard_of(dim), {shard_of(dim), {}}});
    ways.push_back(choose_way(all, faces_of(run, axis), {.ranks = static_cast<int64_t>(walk.table.maps.axes[axis])}));
    // The ids stay whole: which of them a rank has rows for it works out by itself.
    if (ways.back() && ways.back()->out == mask) {
      ways.back()->ins[0] = {};
      ++masks;
    }
  }
  // torch 2.13, _embedding_ops.py: one mask for all axes (MaskBuffer has been materialized with conflicting data).
  if (masks > 1)
    return crash_at(walk, Code::TP5105, "torch looks nothing up in a table whose rows are cut over two axes", run.rule,
                    kNoRule, std::string(run.name));
  if (!bring_all(run, ways)) return;
  if (run.exact) return settle(run);
  const Spread weight = layout_of(walk, run.slots[1]), ids = layout_of(walk, run.slots[0]);
  Spread out;
  out.dims = ids.dims;
  out.dims.push_back(weight.dims[1]);
  if (ids.partial != 0) make_wrong(run.result, Code::TP5108, "indices are a sum that is still open");
  for (size_t axis = 0; axis < run.claim.size(); ++axis) {
    if (run.claim[axis] != mask) continue;
    out.partial |= cut_axes(walk.table, weight) & axis_bit(axis);
    if ((cut_axes(walk.table, ids) & axis_bit(axis)) != 0)
      make_wrong(run.result, Code::TP5107, "a cut table is looked up by cut indices");
  }
  give(run.result, std::move(out));
}

}  // namespace tpplan
