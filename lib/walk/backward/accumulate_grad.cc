#include "walk/backward/accumulate_grad.h"

#include "sharding/dtype.h"
#include "walk/backward/redistribute_grad.h"
#include "walk/dtensor/dtensor_strategies.h"
#include "walk/state/boundary_slots.h"
#include "walk/state/causes.h"
#include "walk/state/slots.h"

namespace tpplan {
namespace {

// Redistributes a gradient for an addition. A replicated one can become partial: each rank divides it.
Grad convert_to_add(Backward& b, const TapeEntry& entry, Grad grad, DeclaredPlacements to, SlotId slot) {
  AxisMask terms = 0;
  for (size_t axis = 0; axis < to.size(); ++axis) {
    if (to[axis].kind != PlacementKind::Partial || grad.declared[axis].kind != PlacementKind::Replicate) continue;
    to[axis] = {};
    terms |= axis_bit(axis);
  }
  grad = redistribute_to_declared(b, entry, std::move(grad), to, slot, true);
  grad.has_declared = true;
  each_state(grad, [terms](GradState& state) {
    if (state.kind == GradKind::Known) state.partial |= terms;
  });
  return grad;
}

// Redistributes two DTensor gradients as torch does to add them, by its strategies for additions
// (walk/dtensor/dtensor_strategies.h).
void convert_to_common(Backward& b, SlotId slot, Grad& have, Grad& add, const TapeEntry& entry) {
  Walk& walk = b.walk;
  const auto shape = shape_of(walk, slot);
  DType type{};
  const double bytes = find_dtype(dtype_of(walk, slot), type) ? static_cast<double>(dtypes()[type].bits) / 8 : 8;
  DeclaredPlacements have_to = have.declared, add_to = add.declared, sum = have.declared;
  for (size_t axis = 0; axis < sum.size(); ++axis) {
    const std::vector<int64_t> sizes(shape.begin(), shape.end());
    const std::vector<OperandSpec> specs{{sizes, have.declared[axis], bytes}, {sizes, add.declared[axis], bytes}};
    const auto strategy =
        choose_strategy(pointwise_strategies(specs, Linearity::Add, false), specs,
                        {.ranks = static_cast<int64_t>(walk.memory.table.maps.axes[axis]), .takes_uneven = true});
    have_to[axis] = strategy ? strategy->ins[0] : Placement{};
    add_to[axis] = strategy ? strategy->ins[1] : Placement{};
    sum[axis] = strategy ? strategy->out : Placement{};
  }
  have = convert_to_add(b, entry, std::move(have), have_to, slot);
  add = convert_to_add(b, entry, std::move(add), add_to, slot);
  have.declared = sum;
}

// Replaces a gradient. Its declared placements stay if the new one has none.
void replace(Grad& have, Grad by) {
  if (!by.has_declared) {
    by.has_declared = have.has_declared;
    by.declared = have.declared;
  }
  have = std::move(by);
}

// Adds the states by segment. Returns false if a complete and a partial segment overlap.
bool add_states(Grad& have, Grad& add, std::span<const int64_t> shape) {
  if (have.segments.empty() && add.segments.empty()) return have.state == add.state;
  if (!have.segments.empty() && !add.segments.empty() && have.dim != add.dim) {
    // With segments of different dims, both gradients must have one common state.
    GradState a{}, b{};
    if (!has_uniform_state(have, a) || !has_uniform_state(add, b) || a != b) return false;
    have.segments.clear();
    have.state = a;
    return true;
  }
  const uint32_t dim = have.segments.empty() ? add.dim : have.dim;
  if (dim >= shape.size()) return true;
  if (have.segments.empty()) have.segments = {{0, shape[dim], have.state}};
  if (add.segments.empty()) add.segments = {{0, shape[dim], add.state}};
  have.dim = dim;
  bool clash = false;
  for (const GradSegment& s : add.segments) add_segment(have.segments, s, clash);
  have.state = kComplete;
  if (GradState all{}; has_uniform_state(have, all)) have.state = all;
  return !clash;
}

}  // namespace

void accumulate_grad(Backward& b, SlotId slot, Grad add, const TapeEntry& entry) {
  Grad& have = b.grads[slot];
  note_grad_arrival(b.walk, slot, add);
  if (has_no_grad(have)) {
    have = std::move(add);
    return;
  }
  if (have.has_declared && add.has_declared && have.declared != add.declared)
    convert_to_common(b, slot, have, add, entry);
  if (have.state == kWrongGrad) return;
  if (add.state == kWrongGrad) return replace(have, std::move(add));
  const bool fits = add_states(have, add, shape_of(b.walk, slot));
  if (have.rule == kNoRule) have.rule = add.rule;
  if (fits) return;
  Grad wrong =
      wrong_grad(b, entry, Code::GradientNotReduced,
                 "a full gradient and a partial gradient are added: no reduction is right for their sum", have.rule);
  wrong.layout = have.layout;
  replace(have, std::move(wrong));
}

}  // namespace tpplan
