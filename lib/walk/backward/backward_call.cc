#include "walk/backward/backward_call.h"

#include <utility>

#include "sharding/dtype.h"
#include "walk/backward/redistribute_grad.h"
#include "walk/state/slots.h"

namespace tpplan {

std::vector<int64_t> sizes_of(const Walk& walk, SlotId slot) {
  const auto shape = shape_of(walk, slot);
  return {shape.begin(), shape.end()};
}

ValueLayoutId declared_layout_of(Walk& walk, std::span<const int64_t> shape, const DeclaredPlacements& declared) {
  ValueLayout local = placed_layout(walk.memory.table, shape, declared);
  local.partial = 0;
  return intern(walk.memory.table, local);
}

ValueLayoutId declared_layout_of(Walk& walk, SlotId slot, const DeclaredPlacements& declared) {
  return declared_layout_of(walk, shape_of(walk, slot), declared);
}

void redistribute_incoming_grad(BackwardCall& c, const DeclaredPlacements& to) {
  c.grad.layout = declared_layout_of(c.b.walk, c.result, c.grad.declared);
  c.grad = redistribute_to_declared(c.b, c.entry, std::move(c.grad), to, c.result, true);
  c.grad.has_declared = true;
}

void redistribute_intermediate(BackwardCall& c, SlotId slot, std::span<const int64_t> shape, DeclaredPlacements at,
                               const DeclaredPlacements& to) {
  Walk& walk = c.b.walk;
  for (const Collective& step : redistribute(at, to).value_or(std::vector<Collective>{})) {
    const ValueLayout held = walk.memory.table.layouts[declared_layout_of(walk, shape, at)];
    if (step.kind != CollectiveKind::LocalSlice) append_grad_call(c.b, c.entry, step, held, slot, true);
    at[step.axis] = placement_after(step, to);
  }
}

void redistribute_saved(BackwardCall& c, SlotId saved, const DeclaredPlacements& to) {
  redistribute_intermediate(c, saved, shape_of(c.b.walk, saved), layout_of(c.b.walk, saved).declared, to);
}

OperandSpec operand_spec(const Walk& walk, SlotId slot, const Placement& at) {
  DType type{};
  const bool known = find_dtype(dtype_of(walk, slot), type);
  return {.shape = sizes_of(walk, slot), .at = at, .bytes = known ? static_cast<double>(dtypes()[type].bits) / 8 : 8};
}

bool makes_partial(const Strategy& strategy, std::span<const OperandSpec> specs) {
  for (size_t i = 0; i < specs.size(); ++i) {
    if (strategy.ins[i].kind == PlacementKind::Partial && strategy.ins[i] != specs[i].at) return true;
  }
  return false;
}

DeclaredPlacements reduced_placements(const BackwardCall& c, DeclaredPlacements declared) {
  const auto from = shape_of(c.b.walk, c.result), to = shape_of(c.b.walk, c.ins[c.target]);
  const size_t missing = from.size() - to.size();
  for (Placement& placement : declared) {
    if (!is_shard(placement)) continue;
    const auto dim = static_cast<size_t>(placement.dim);
    if (dim < missing || to[dim - missing] != from[dim])
      placement = {.kind = PlacementKind::Partial};
    else
      placement.dim = static_cast<int>(dim - missing);
  }
  return declared;
}

}  // namespace tpplan
