#include "walk/dtensor/dtensor_reductions.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "ops/op_rules.h"
#include "walk/report/append_call.h"
#include "walk/state/causes.h"
#include "walk/state/node_args.h"
#include "walk/state/slots.h"

namespace tpplan {
namespace {

struct ReductionRow {
  bool is_partial = false;
  ReduceOp op = ReduceOp::Sum;
  bool of_all = false;  // only without a dim argument
};

constexpr auto kReductions = by_op<ReductionRow>({
    {OpId::Sum, {true, ReduceOp::Sum}},
    {OpId::Mean, {true, ReduceOp::Avg}},
    {OpId::Amax, {true, ReduceOp::Max}},
    {OpId::Amin, {true, ReduceOp::Min}},
    {OpId::Max, {true, ReduceOp::Max, true}},
    {OpId::Min, {true, ReduceOp::Min, true}},
    {OpId::Norm, {true, ReduceOp::Norm}},
    {OpId::LinalgVectorNorm, {true, ReduceOp::Norm}},
});

// True if the reduction accepts the placement of its operand: a partial value of the same reduce op, or shards, which
// must be even for a mean.
bool goes_on(const DtensorRun& run, const Placement& at, ReduceOp op, const std::vector<bool>& along, int64_t ranks) {
  if (at.kind == PlacementKind::Partial) return at.op == op;
  if (op != ReduceOp::Avg) return true;
  const std::vector<int64_t> shape = declared_shape(run, 0);
  for (size_t dim = 0; dim < along.size(); ++dim) {
    const bool uneven = is_shard(at) && at.dim == static_cast<int>(dim) && shape[dim] % ranks != 0;
    if (along[dim] && uneven) return false;
  }
  return true;
}

// Returns the number of dims in `normalized_shape`.
size_t normalised_dims(DtensorRun& run) {
  OpCall call = op_call_of(run.walk, run.node);
  prepare_call(call);
  return std::max<size_t>(1, numbers_at(call, 1, "normalized_shape").size());
}

}  // namespace

bool is_partial_reduction(const DtensorRun& run) {
  const ReductionRow& row = kReductions[index_of(run.node.op)];
  if (!row.is_partial || run.slots.size() != 1) return false;
  return !row.of_all || run.node.out_end - run.node.out_begin == 1;
}

void run_reduction(DtensorRun& run) {
  Walk& walk = run.walk;
  const ReductionRow& row = kReductions[index_of(run.node.op)];
  OpCall call = op_call_of(walk, run.node);
  prepare_call(call);
  const std::vector<bool> along = dims_of_operation(call);
  const bool keeps_dims = shape_of(walk.in.graph, walk.in.graph.outs[run.node.out_begin]).size() == along.size();
  DeclaredPlacements in = declared_of(run, 0);
  run.declared = in;
  for (size_t axis = 0; axis < in.size(); ++axis) {
    const auto ranks = static_cast<int64_t>(walk.memory.table.maps.axes[axis]);
    Placement& at = in[axis];
    const bool is_along = is_shard(at) && along[static_cast<size_t>(at.dim)];
    if (!goes_on(run, at, row.op, along, ranks) && (is_along || at.kind == PlacementKind::Partial)) at = {};
    Placement& out = run.declared[axis] = at;
    if (!is_shard(at)) continue;
    if (is_along)
      out = {.kind = PlacementKind::Partial, .op = row.op};
    else if (!keeps_dims)
      out.dim -= static_cast<int>(std::count(along.begin(), along.begin() + at.dim, true));
  }
  redistribute_operand(run, 0, in);
  if (walk.out.crash == kNoId) compute_result(run);
}

void run_layer_norm(DtensorRun& run) {
  Walk& walk = run.walk;
  const size_t normalised_ = normalised_dims(run);
  std::vector<std::optional<Strategy>> strategies;
  for (size_t axis = 0; axis < run.declared.size(); ++axis) {
    const std::vector<OperandSpec> specs = operand_specs(run, axis);
    std::vector<Strategy> all{replicated_strategy(specs.size())};
    for (size_t dim = 0; dim + normalised_ < specs[0].shape.size(); ++dim) {
      Placement shard = is_shard(specs[0].at) ? specs[0].at : shard_of(dim);
      shard.dim = static_cast<int>(dim);
      Strategy strategy = replicated_strategy(specs.size());
      strategy.out = strategy.ins[0] = shard;
      all.push_back(std::move(strategy));
    }
    strategies.push_back(
        choose_strategy(all, specs, {.ranks = static_cast<int64_t>(walk.memory.table.maps.axes[axis])}));
  }
  if (redistribute_operands(run, strategies)) compute_result(run);
}

void run_rms_norm(DtensorRun& run) {
  Walk& walk = run.walk;
  const size_t first = declared_shape(run, 0).size() - normalised_dims(run);
  run.declared = declared_of(run, 0);
  for (size_t axis = 0; axis < run.declared.size(); ++axis) {
    const Placement& at = run.declared[axis];
    if (is_shard(at) && static_cast<size_t>(at.dim) >= first)
      return crash_at(
          walk, Code::UnsupportedCall,
          fmt::format("{} over sharded dim {}: its mean stays Partial, and torch adds eps in place", run.name, at.dim),
          run.rule, kNoRule, std::string(run.name));
    if (at.kind == PlacementKind::Partial) {  // its square needs the reduced value
      append_call(walk, false, CollectiveKind::AllReduce, axis, current_module(walk), declared_shape(run, 0),
                  dtype_of(walk, run.slots[0]), true);
      if (!run.exact) redistribute_operand(run, 0, replicated_placements(walk));
    }
  }
  compute_result(run);
}

void run_normalize(DtensorRun& run) {
  Walk& walk = run.walk;
  OpCall call = op_call_of(walk, run.node);
  prepare_call(call);
  const std::vector<bool> along = dims_of_operation(call);
  run.declared = declared_of(run, 0);
  for (size_t axis = 0; axis < run.declared.size(); ++axis) {
    const Placement& at = run.declared[axis];
    const bool is_along = is_shard(at) && along[static_cast<size_t>(at.dim)];
    if (!is_along && at.kind != PlacementKind::Partial) continue;
    if (!run.exact) {
      DeclaredPlacements gathered = run.declared;
      gathered[axis] = {};
      redistribute_operand(run, 0, gathered);
      run.declared = gathered;
      continue;
    }
    std::vector<int64_t> shape = local_shape(walk.memory.table, layout_of(walk, run.slots[0]), 0);
    for (size_t dim = 0; dim < along.size() && is_along; ++dim) shape[dim] = along[dim] ? 1 : shape[dim];
    append_call(walk, false, CollectiveKind::AllReduce, axis, current_module(walk), std::move(shape),
                dtype_of(walk, run.slots[0]), true);
  }
  if (walk.out.crash == kNoId) compute_result(run);
}

}  // namespace tpplan
