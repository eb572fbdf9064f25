#include "walk/dtensor_products.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "walk/causes.h"
#include "walk/dtensor_views.h"
#include "walk/product_folds.h"
#include "walk/slots.h"

namespace tpplan {
namespace {

void refuse_fold(DtensorRun& run, size_t operand, const std::string& fault) {
  crash_at(run.walk, Code::TP5103,
           fmt::format("{} views its operand, a DTensor that is {}, as a matrix: {}", run.name,
                       to_text(std::span<const Placement>(claim_of(run, operand))), fault),
           run.rule, kNoRule, std::string(run.name));
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

std::vector<std::vector<int64_t>> claimed_shapes(const DtensorRun& run) {
  std::vector<std::vector<int64_t>> shapes;
  for (size_t i = 0; i < run.slots.size(); ++i) shapes.push_back(claimed_shape(run, i));
  return shapes;
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

void run_linear(DtensorRun& run) { run_product(run, linear_folds(claimed_shapes(run), claimed_out_shape(run))); }

void run_matmul(DtensorRun& run) { run_product(run, matmul_folds(claimed_shapes(run), claimed_out_shape(run))); }

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
