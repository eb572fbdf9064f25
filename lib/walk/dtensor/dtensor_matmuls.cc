#include "walk/dtensor/dtensor_matmuls.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "walk/dtensor/dtensor_views.h"
#include "walk/dtensor/matmul_views.h"
#include "walk/state/causes.h"
#include "walk/state/slots.h"

namespace tpplan {
namespace {

void reject_view(DtensorRun& run, size_t operand, const std::string& fault) {
  crash_at(run.walk, Code::GlobalSizeInView,
           fmt::format("{} views its operand, a DTensor {}, as a matrix: {}", run.name,
                       to_text(std::span<const Placement>(declared_of(run, operand))), fault),
           run.rule, kNoRule, std::string(run.name));
}

// Chooses a strategy along one axis for the viewed operands, and converts its placements to those of the original
// operands.
std::optional<Strategy> matmul_strategy(DtensorRun& run, const MatmulViews& views, size_t axis) {
  const auto ranks = static_cast<int64_t>(run.walk.memory.table.maps.axes[axis]);
  const std::vector<OperandSpec> specs = operand_specs(run, axis);
  std::vector<OperandSpec> seen = specs;
  for (size_t i = 0; i < seen.size(); ++i) {
    if (seen[i].shape == views.operands[i]) continue;
    std::string fault;
    const auto one = view_placement(specs[i].at, specs[i].shape, views.operands[i], ranks, fault);
    if (!one) {
      reject_view(run, i, fault);
      return std::nullopt;
    }
    seen[i].shape = views.operands[i];
    seen[i].at = one->out;
  }
  auto strategy = choose_strategy(matmul_strategies(seen, views.dims, views.bias), seen, {.ranks = ranks});
  if (!strategy) return strategy;
  const auto out = declared_out_shape(run);
  strategy->out = placement_of_view(strategy->out, views.out, out, ranks);
  for (size_t i = 0; i < seen.size(); ++i) {
    if (strategy->ins[i] == seen[i].at)
      strategy->ins[i] = specs[i].at;
    else
      strategy->ins[i] = placement_of_view(strategy->ins[i], seen[i].shape, specs[i].shape, ranks);
  }
  return strategy;
}

std::vector<std::vector<int64_t>> declared_shapes(const DtensorRun& run) {
  std::vector<std::vector<int64_t>> shapes;
  for (size_t i = 0; i < run.slots.size(); ++i) shapes.push_back(declared_shape(run, i));
  return shapes;
}

void run_module_matmul(DtensorRun& run, const MatmulViews& views) {
  std::vector<std::optional<Strategy>> strategies;
  for (size_t axis = 0; axis < run.declared.size(); ++axis) {
    strategies.push_back(matmul_strategy(run, views, axis));
    if (run.walk.out.crash != kNoId) return;
  }
  if (redistribute_operands(run, strategies)) compute_result(run);
}

}  // namespace

void run_linear(DtensorRun& run) {
  run_module_matmul(run, linear_views(declared_shapes(run), declared_out_shape(run)));
}

void run_matmul(DtensorRun& run) {
  run_module_matmul(run, matmul_views(declared_shapes(run), declared_out_shape(run)));
}

void run_embedding(DtensorRun& run) {
  Walk& walk = run.walk;
  const Placement mask{.kind = PlacementKind::Partial, .op = ReduceOp::Mask};
  const size_t ndim = declared_shape(run, 0).size();
  std::vector<std::optional<Strategy>> strategies;
  size_t masks = 0;
  for (size_t axis = 0; axis < run.declared.size(); ++axis) {
    std::vector<Strategy> all{replicated_strategy(2), {shard_of(ndim), {{}, shard_of(1)}}, {mask, {mask, shard_of(0)}}};
    for (size_t dim = 0; dim < ndim; ++dim) all.push_back({shard_of(dim), {shard_of(dim), {}}});
    strategies.push_back(choose_strategy(all, operand_specs(run, axis),
                                         {.ranks = static_cast<int64_t>(walk.memory.table.maps.axes[axis])}));
    // The ids stay replicated. Each rank masks the ids outside its rows.
    if (strategies.back() && strategies.back()->out == mask) {
      strategies.back()->ins[0] = {};
      ++masks;
    }
  }
  // torch 2.13, _embedding_ops.py, has one mask for all axes (MaskBuffer has been materialized with conflicting data).
  if (masks > 1)
    return crash_at(walk, Code::UnsupportedCall,
                    "torch does not support an embedding whose rows are sharded over two axes", run.rule, kNoRule,
                    std::string(run.name));
  if (!redistribute_operands(run, strategies)) return;
  if (run.exact) return compute_result(run);
  const ValueLayout weight = layout_of(walk, run.slots[1]), ids = layout_of(walk, run.slots[0]);
  ValueLayout out;
  out.dims = ids.dims;
  out.dims.push_back(weight.dims[1]);
  if (ids.partial != 0)
    mark_wrong(run.result, Code::PartialUsedAsFull,
               "the indices are a pending partial sum, but are used as the full sum");
  for (size_t axis = 0; axis < run.declared.size(); ++axis) {
    if (run.declared[axis] != mask) continue;
    out.partial |= sharding_axes(walk.memory.table, weight) & axis_bit(axis);
    if ((sharding_axes(walk.memory.table, ids) & axis_bit(axis)) != 0)
      mark_wrong(run.result, Code::ShardsMismatch,
                 "a row-sharded embedding is looked up by indices that are sharded over the same axis");
  }
  append_result(run.result, std::move(out));
}

}  // namespace tpplan
