#include "walk/dtensor_run.h"

#include <algorithm>

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

void bring(DtensorRun& run, size_t operand, std::span<const Placement> to) {
  if (layout_of(run.walk, run.slots[operand]).is_dtensor)
    run.slots[operand] = redistribute_slot(run.walk, run.slots[operand], to, false);
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
  call.size_numbers = run.held_sizes;
  OpResult result = run_rule(call);
  for (size_t i = 0; i < run.values.size(); ++i) run.walk.layout_of[run.values[i]] = before[i];
  return result;
}

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
