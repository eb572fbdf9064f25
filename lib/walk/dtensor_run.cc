#include "walk/dtensor_run.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <utility>

#include "sharding/dtype.h"
#include "walk/causes.h"
#include "walk/node_args.h"
#include "walk/redistribute_slot.h"
#include "walk/slots.h"

namespace tpplan {

Claim claim_of(const DtensorRun& run, size_t operand) {
  const Spread& layout = layout_of(run.walk, run.slots[operand]);
  return layout.is_dtensor ? layout.claim : whole_claim(run.walk);
}

std::span<const int64_t> shape_of(const DtensorRun& run, size_t operand) {
  return shape_of(run.walk.graph, run.values[operand]);
}

std::vector<int64_t> claimed_shape(const DtensorRun& run, size_t operand) {
  const Spread& layout = layout_of(run.walk, run.slots[operand]);
  const auto shape = shape_of(run, operand);
  return layout.is_dtensor ? layout.claimed_shape : std::vector<int64_t>(shape.begin(), shape.end());
}

std::vector<Face> faces_of(const DtensorRun& run, size_t axis) {
  std::vector<Face> faces;
  for (size_t i = 0; i < run.slots.size(); ++i) {
    DType type{};
    const bool known = find_dtype(dtype_of(run.walk, run.slots[i]), type);
    faces.push_back({.shape = claimed_shape(run, i),
                     .at = claim_of(run, i)[axis],
                     .bytes = known ? static_cast<double>(dtypes()[type].bits) / 8 : 8});
  }
  return faces;
}

void bring(DtensorRun& run, size_t operand, std::span<const Placement> to) {
  Walk& walk = run.walk;
  if (!layout_of(walk, run.slots[operand]).is_dtensor) return;
  const Claim from = layout_of(walk, run.slots[operand]).claim;
  Claim stays(to.begin(), to.end());
  AxisMask terms = 0;
  for (size_t axis = 0; axis < stays.size(); ++axis) {
    if (stays[axis].kind != PlacementKind::Partial || from[axis].kind != PlacementKind::Replicate) continue;
    stays[axis] = {};
    terms |= axis_bit(axis);
  }
  run.slots[operand] = redistribute_slot(walk, run.slots[operand], stays, false);
  if (terms == 0 || walk.crash != kNoId) return;
  Spread layout = layout_of(walk, run.slots[operand]);
  layout.claim.assign(to.begin(), to.end());
  layout.partial |= terms;
  run.slots[operand] = derived(walk, run.slots[operand], layout, kNoRule);
}

bool bring_all(DtensorRun& run, std::span<const std::optional<Way>> by_axis) {
  run.claim = whole_claim(run.walk);
  for (const auto& way : by_axis) {
    if (way) continue;
    crash_at(
        run.walk, Code::TP5105,
        fmt::format("{} writes into a DTensor that it would have to redistribute first, which torch refuses", run.name),
        run.rule, kNoRule, std::string(run.name));
    return false;
  }
  for (size_t i = 0; i < run.slots.size(); ++i) {
    Claim to;
    for (const auto& way : by_axis) to.push_back(way->ins[i]);
    bring(run, i, to);
  }
  for (size_t axis = 0; axis < by_axis.size(); ++axis) run.claim[axis] = by_axis[axis]->out;
  return run.walk.crash == kNoId;
}

void settle(DtensorRun& run) {
  if (!run.exact) {
    run.result = run_on(run, held_layouts(run));
    return;
  }
  run.result.is_write = run.in_place;
  for (uint32_t i = run.node.out_begin; i < run.node.out_end; ++i) {
    const auto shape = shape_of(run.walk.graph, run.walk.graph.outs[i]);
    run.result.outs.push_back(placed_layout(run.walk.table, shape, normalised(run.claim, shape.size())));
  }
}

bool is_as_claimed(DtensorRun& run, size_t operand) {
  const Spread held = layout_of(run.walk, run.slots[operand]);
  const auto shape = shape_of(run, operand);
  if (!held.is_dtensor || !std::equal(shape.begin(), shape.end(), held.claimed_shape.begin(), held.claimed_shape.end()))
    return false;
  const Spread claimed = placed_layout(run.walk.table, shape, held.claim);
  return held.dims == claimed.dims && (held.partial == claimed.partial || held.zero);
}

OpResult run_on(DtensorRun& run, std::span<const SpreadId> layouts) {
  // Rules read layouts by value: these stand there while the rule runs.
  std::vector<SpreadId> before;
  for (const ValueId value : run.values) before.push_back(run.walk.layout_of[value]);
  for (size_t i = 0; i < run.values.size(); ++i) run.walk.layout_of[run.values[i]] = layouts[i];
  OpCall call = call_of(run.walk, run.node);
  // What elements are reckoned with is the number that the code got.
  if (Linearity ignored{}; !find_pointwise(run.name, ignored)) call.size_numbers = run.held_sizes;
  OpResult result = run_rule(call);
  for (size_t i = 0; i < run.values.size(); ++i) run.walk.layout_of[run.values[i]] = before[i];
  return result;
}

namespace {

// Operands that have all the sizes that they claim, on every rank: what torch works out the result's sizes with.
OpResult run_claimed_sizes(DtensorRun& run) {
  Walk& walk = run.walk;
  std::vector<SpreadId> layouts;
  for (size_t i = 0; i < run.slots.size(); ++i) {
    const auto recorded = shape_of(run, i);
    const std::vector<int64_t> claimed = claimed_shape(run, i);
    Spread layout;
    for (size_t dim = 0; dim < recorded.size(); ++dim)
      layout.dims.push_back(claimed[dim] == recorded[dim] ? whole_map(walk.table.maps, recorded[dim])
                                                          : any_map(walk.table.maps, recorded[dim],
                                                                    std::vector<int64_t>(walk.ranks, claimed[dim]), 0));
    layouts.push_back(intern(walk.table, layout));
  }
  std::vector<uint32_t> held = std::exchange(run.held_sizes, walk.size_numbers);
  OpResult result = run_on(run, layouts);
  run.held_sizes = std::move(held);
  return result;
}

}  // namespace

std::vector<int64_t> claimed_out_shape(DtensorRun& run) {
  const auto recorded = shape_of(run.walk.graph, run.walk.graph.outs[run.node.out_begin]);
  std::vector<int64_t> shape(recorded.begin(), recorded.end());
  if (run.exact) return shape;
  const OpResult result = run_claimed_sizes(run);
  if (result.crash.empty() && !result.outs.empty() && result.outs[0].dims.size() == shape.size())
    shape = local_shape(run.walk.table, result.outs[0], 0);
  return shape;
}

std::string claimed_crash(DtensorRun& run) { return run.exact ? std::string() : run_claimed_sizes(run).crash; }

std::vector<SpreadId> held_layouts(DtensorRun& run) {
  std::vector<SpreadId> held;
  for (const SlotId slot : run.slots) {
    Spread layout = layout_of(run.walk, slot);
    layout.is_dtensor = false;
    layout.claim = {};
    layout.claimed_shape.clear();
    held.push_back(intern(run.walk.table, layout));
  }
  return held;
}

std::vector<SpreadId> claimed_layouts(DtensorRun& run) {
  SpreadTable& table = run.walk.table;
  std::vector<SpreadId> claimed;
  for (size_t i = 0; i < run.slots.size(); ++i) {
    const bool is_dtensor = layout_of(run.walk, run.slots[i]).is_dtensor;
    const auto shape = shape_of(run, i);
    claimed.push_back(
        intern(table, is_dtensor ? placed_layout(table, shape, claim_of(run, i)) : whole_layout(table, shape)));
  }
  return claimed;
}

bool claim_for(const Walk& walk, const Spread& layout, Claim& claim) {
  claim = whole_claim(walk);
  for (size_t axis = 0; axis < claim.size(); ++axis) {
    size_t cut = 0;
    for (size_t dim = 0; dim < layout.dims.size(); ++dim) {
      const DimMap& map = walk.table.maps.maps[layout.dims[dim]];
      if (map.kind == MapKind::Cut && map.axes == 0) return false;
      if ((map.axes & axis_bit(axis)) == 0) continue;
      claim[axis] = shard_of(dim);
      ++cut;
    }
    const bool open = (layout.partial & axis_bit(axis)) != 0;
    if (open) claim[axis].kind = PlacementKind::Partial;
    if (cut > 1 || (cut == 1 && open)) return false;
  }
  return true;
}

}  // namespace tpplan
