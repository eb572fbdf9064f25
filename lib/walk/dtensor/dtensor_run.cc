#include "walk/dtensor/dtensor_run.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <utility>

#include "ops/op_rules.h"
#include "sharding/dtype.h"
#include "walk/run/redistribute_slot.h"
#include "walk/state/causes.h"
#include "walk/state/node_args.h"
#include "walk/state/slots.h"

namespace tpplan {

DeclaredPlacements declared_of(const DtensorRun& run, size_t operand) {
  const ValueLayout& layout = layout_of(run.walk, run.slots[operand]);
  return layout.is_dtensor ? layout.declared : replicated_placements(run.walk);
}

std::span<const int64_t> shape_of(const DtensorRun& run, size_t operand) {
  return shape_of(run.walk.in.graph, run.values[operand]);
}

std::vector<int64_t> declared_shape(const DtensorRun& run, size_t operand) {
  const ValueLayout& layout = layout_of(run.walk, run.slots[operand]);
  const auto shape = shape_of(run, operand);
  return layout.is_dtensor ? layout.declared_shape : std::vector<int64_t>(shape.begin(), shape.end());
}

std::vector<OperandSpec> operand_specs(const DtensorRun& run, size_t axis) {
  std::vector<OperandSpec> specs;
  for (size_t i = 0; i < run.slots.size(); ++i) {
    DType type{};
    const bool known = find_dtype(dtype_of(run.walk, run.slots[i]), type);
    specs.push_back({.shape = declared_shape(run, i),
                     .at = declared_of(run, i)[axis],
                     .bytes = known ? static_cast<double>(dtypes()[type].bits) / 8 : 8});
  }
  return specs;
}

void redistribute_operand(DtensorRun& run, size_t operand, std::span<const Placement> to) {
  Walk& walk = run.walk;
  if (!layout_of(walk, run.slots[operand]).is_dtensor) return;
  const DeclaredPlacements from = layout_of(walk, run.slots[operand]).declared;
  DeclaredPlacements stays(to.begin(), to.end());
  AxisMask terms = 0;
  for (size_t axis = 0; axis < stays.size(); ++axis) {
    if (stays[axis].kind != PlacementKind::Partial || from[axis].kind != PlacementKind::Replicate) continue;
    stays[axis] = {};
    terms |= axis_bit(axis);
  }
  run.slots[operand] = redistribute_slot(walk, run.slots[operand], stays, false);
  if (terms == 0 || walk.out.crash != kNoId) return;
  ValueLayout layout = layout_of(walk, run.slots[operand]);
  layout.declared.assign(to.begin(), to.end());
  layout.partial |= terms;
  run.slots[operand] = derive_slot(walk, run.slots[operand], layout, kNoRule);
}

bool redistribute_operands(DtensorRun& run, std::span<const std::optional<Strategy>> by_axis) {
  run.declared = replicated_placements(run.walk);
  for (const auto& strategy : by_axis) {
    if (strategy) continue;
    crash_at(run.walk, Code::UnsupportedCall,
             fmt::format("{} writes into a DTensor that needs a redistribution first, which torch rejects", run.name),
             run.rule, kNoRule, std::string(run.name));
    return false;
  }
  for (size_t i = 0; i < run.slots.size(); ++i) {
    DeclaredPlacements to;
    for (const auto& strategy : by_axis) to.push_back(strategy->ins[i]);
    redistribute_operand(run, i, to);
  }
  for (size_t axis = 0; axis < by_axis.size(); ++axis) run.declared[axis] = by_axis[axis]->out;
  return run.walk.out.crash == kNoId;
}

void compute_result(DtensorRun& run) {
  if (!run.exact) {
    run.result = run_rule_on(run, actual_layouts(run));
    return;
  }
  run.result.is_write = run.node.in_place;
  for (uint32_t i = run.node.out_begin; i < run.node.out_end; ++i) {
    const auto shape = shape_of(run.walk.in.graph, run.walk.in.graph.outs[i]);
    run.result.outs.push_back(
        placed_layout(run.walk.memory.table, shape, normalised_placements(run.declared, shape.size())));
  }
}

bool is_as_declared(DtensorRun& run, size_t operand) {
  const ValueLayout held = layout_of(run.walk, run.slots[operand]);
  const auto shape = shape_of(run, operand);
  if (!held.is_dtensor ||
      !std::equal(shape.begin(), shape.end(), held.declared_shape.begin(), held.declared_shape.end()))
    return false;
  const ValueLayout expected = placed_layout(run.walk.memory.table, shape, held.declared);
  return held.dims == expected.dims && (held.partial == expected.partial || held.zero);
}

OpResult run_rule_on(DtensorRun& run, std::span<const ValueLayoutId> layouts) {
  // Rules read layouts by value, so replace them while the rule runs.
  std::vector<ValueLayoutId> before;
  for (const ValueId value : run.values) before.push_back(run.walk.memory.layout_of[value]);
  for (size_t i = 0; i < run.values.size(); ++i) run.walk.memory.layout_of[run.values[i]] = layouts[i];
  OpCall call = op_call_of(run.walk, run.node);
  // Elementwise operations compute with the number that the code read.
  if (!is_elementwise(run.node.op)) call.size_numbers = run.local_size_ids;
  OpResult result = run_rule(call);
  for (size_t i = 0; i < run.values.size(); ++i) run.walk.memory.layout_of[run.values[i]] = before[i];
  return result;
}

namespace {

// Runs the rule on operands that have their declared sizes on every rank, as torch does to compute the result's sizes.
OpResult run_declared_sizes(DtensorRun& run) {
  Walk& walk = run.walk;
  std::vector<ValueLayoutId> layouts;
  for (size_t i = 0; i < run.slots.size(); ++i) {
    const auto traced = shape_of(run, i);
    const std::vector<int64_t> expected = declared_shape(run, i);
    ValueLayout layout;
    for (size_t dim = 0; dim < traced.size(); ++dim)
      layout.dims.push_back(expected[dim] == traced[dim]
                                ? replicated_dim(walk.memory.table.maps, traced[dim])
                                : unknown_dim(walk.memory.table.maps, traced[dim],
                                              std::vector<int64_t>(walk.in.ranks, expected[dim]), 0));
    layouts.push_back(intern(walk.memory.table, layout));
  }
  std::vector<uint32_t> held = std::exchange(run.local_size_ids, walk.memory.size_numbers);
  OpResult result = run_rule_on(run, layouts);
  run.local_size_ids = std::move(held);
  return result;
}

}  // namespace

std::vector<int64_t> declared_out_shape(DtensorRun& run) {
  const auto traced = shape_of(run.walk.in.graph, run.walk.in.graph.outs[run.node.out_begin]);
  std::vector<int64_t> shape(traced.begin(), traced.end());
  if (run.exact) return shape;
  const OpResult result = run_declared_sizes(run);
  if (result.crash.empty() && !result.outs.empty() && result.outs[0].dims.size() == shape.size())
    shape = local_shape(run.walk.memory.table, result.outs[0], 0);
  return shape;
}

std::string declared_size_error(DtensorRun& run) { return run.exact ? std::string() : run_declared_sizes(run).crash; }

std::vector<ValueLayoutId> actual_layouts(DtensorRun& run) {
  std::vector<ValueLayoutId> held;
  for (const SlotId slot : run.slots) {
    ValueLayout layout = layout_of(run.walk, slot);
    layout.is_dtensor = false;
    layout.declared = {};
    layout.declared_shape.clear();
    held.push_back(intern(run.walk.memory.table, layout));
  }
  return held;
}

std::vector<ValueLayoutId> declared_layouts(DtensorRun& run) {
  ValueLayoutTable& table = run.walk.memory.table;
  std::vector<ValueLayoutId> expected;
  for (size_t i = 0; i < run.slots.size(); ++i) {
    const bool is_dtensor = layout_of(run.walk, run.slots[i]).is_dtensor;
    const auto shape = shape_of(run, i);
    expected.push_back(
        intern(table, is_dtensor ? placed_layout(table, shape, declared_of(run, i)) : replicated_layout(table, shape)));
  }
  return expected;
}

bool find_declared_placements(const Walk& walk, const ValueLayout& layout, DeclaredPlacements& declared) {
  declared = replicated_placements(walk);
  for (size_t axis = 0; axis < declared.size(); ++axis) {
    size_t shards = 0;
    for (size_t dim = 0; dim < layout.dims.size(); ++dim) {
      const DimLayout& map = walk.memory.table.maps.maps[layout.dims[dim]];
      if (map.kind == DimLayoutKind::Sharded && map.axes == 0) return false;
      if ((map.axes & axis_bit(axis)) == 0) continue;
      declared[axis] = shard_of(dim);
      ++shards;
    }
    const bool has_partial = (layout.partial & axis_bit(axis)) != 0;
    if (has_partial) declared[axis].kind = PlacementKind::Partial;
    if (shards > 1 || (shards == 1 && has_partial)) return false;
  }
  return true;
}

}  // namespace tpplan
