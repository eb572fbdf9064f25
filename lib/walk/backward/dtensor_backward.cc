#include "walk/backward/dtensor_backward.h"

#include <algorithm>

#include "ops/op_rules.h"
#include "sharding/dtype.h"
#include "walk/backward/backward_call.h"
#include "walk/backward/derivatives.h"
#include "walk/backward/redistribute_grad.h"
#include "walk/dtensor/dtensor_views.h"
#include "walk/dtensor/matmul_views.h"
#include "walk/state/node_args.h"
#include "walk/state/slots.h"
#include "walk/state/tape.h"

namespace tpplan {
namespace {

bool is_actual_as_declared(Walk& walk, const ValueLayout& held) {
  if (!held.is_dtensor) return false;
  const ValueLayout expected = placed_layout(walk.memory.table, held.declared_shape, held.declared);
  return held.dims == expected.dims && held.partial == expected.partial;
}

bool is_as_declared(Backward& b, SlotId slot, ValueLayoutId layout) {
  const auto shape = shape_of(b.walk, slot);
  const ValueLayout& held = b.walk.memory.table.layouts[layout];
  if (!held.is_dtensor ||
      !std::equal(shape.begin(), shape.end(), held.declared_shape.begin(), held.declared_shape.end()))
    return false;
  std::vector<uint8_t>& matches_declared = b.walk.memory.tables.matches_declared;
  if (matches_declared.size() <= layout) matches_declared.resize(b.walk.memory.table.layouts.size() + 1);
  if (matches_declared[layout] == 0)
    matches_declared[layout] = is_actual_as_declared(b.walk, ValueLayout(held)) ? 1 : 2;
  return matches_declared[layout] == 1;
}

bool is_as_declared(const Grad& grad) {
  return grad.has_declared && grad.segments.empty() && grad.state.kind == GradKind::Known &&
         grad.state.partial == partial_mask(grad.declared);
}

bool is_exact(Backward& b, const TapeEntry& entry, const TapeSlot& result) {
  const Walk& walk = b.walk;
  const Grad& grad = b.grads[result.slot];
  if (entry.kind != TapeKind::Op || !is_as_declared(grad)) return false;
  const auto held = [&](const TapeSlot& slot) {
    return is_as_declared(b, slot.slot, slot.layout) &&
           is_as_declared(b, slot.slot, walk.memory.slots[slot.slot].layout);
  };
  const auto ins = std::span(walk.memory.tape_slots).subspan(entry.in_begin, entry.in_end - entry.in_begin);
  return held(result) && std::all_of(ins.begin(), ins.end(), held);
}

// ---- matmuls ----

constexpr auto kMatmuls = op_set({OpId::Linear, OpId::Matmul, OpId::Bmm, OpId::Mm});

OperandSpec folded_face(const Walk& walk, SlotId slot, const Placement& at, const std::vector<int64_t>& folded,
                        int64_t ranks) {
  OperandSpec spec_of_operand = operand_spec(walk, slot, placement_of_view(at, sizes_of(walk, slot), folded, ranks));
  spec_of_operand.shape = folded;
  return spec_of_operand;
}

MatmulViews folds_of(const BackwardCall& c) {
  std::vector<std::vector<int64_t>> shapes;
  for (const SlotId slot : c.ins) shapes.push_back(sizes_of(c.b.walk, slot));
  const std::vector<int64_t> out = sizes_of(c.b.walk, c.result);
  return c.op == OpId::Linear ? linear_views(shapes, out) : matmul_views(shapes, out);
}

// Returns the placements of a bias gradient, which is the sum over the rows of the result's gradient.
DeclaredPlacements declared_bias(const BackwardCall& c) {
  DeclaredPlacements declared = c.grad.declared;
  const auto last = static_cast<int>(shape_of(c.b.walk, c.result).size()) - 1;
  for (Placement& placement : declared) {
    if (!is_shard(placement)) continue;
    const bool stays = placement.dim == last;
    placement = stays ? shard_of(0) : Placement{.kind = PlacementKind::Partial};
  }
  return declared;
}

bool declare_matmul(BackwardCall& c, DeclaredPlacements& declared) {
  if (c.target > 1) {
    declared = declared_bias(c);
    return true;
  }
  const Walk& walk = c.b.walk;
  const MatmulViews folds = folds_of(c);
  const SlotId saved = c.ins[1 - c.target];
  std::vector<MatmulDim> dims;
  for (const MatmulDim& dim : folds.dims)
    dims.push_back({.a = dim.out, .b = c.target == 0 ? dim.b : dim.a, .out = c.target == 0 ? dim.a : dim.b});
  const DeclaredPlacements from = layout_of(walk, saved).declared;
  DeclaredPlacements grad_to = c.grad.declared, saved_to = from;
  declared = from;
  for (size_t axis = 0; axis < from.size(); ++axis) {
    const auto ranks = static_cast<int64_t>(walk.memory.table.maps.axes[axis]);
    const std::vector<OperandSpec> specs{folded_face(walk, c.result, c.grad.declared[axis], folds.out, ranks),
                                         folded_face(walk, saved, from[axis], folds.operands[1 - c.target], ranks)};
    const auto strategy = choose_strategy(matmul_strategies(specs, dims, false), specs, {.ranks = ranks});
    if (!strategy || makes_partial(*strategy, specs)) return false;
    if (strategy->ins[0] != specs[0].at)
      grad_to[axis] = placement_of_view(strategy->ins[0], folds.out, sizes_of(walk, c.result), ranks);
    if (strategy->ins[1] != specs[1].at)
      saved_to[axis] = placement_of_view(strategy->ins[1], specs[1].shape, sizes_of(walk, saved), ranks);
    declared[axis] = placement_of_view(strategy->out, folds.operands[c.target], sizes_of(walk, c.ins[c.target]), ranks);
  }
  redistribute_incoming_grad(c, grad_to);
  redistribute_saved(c, saved, saved_to);
  return true;
}

// ---- elementwise operations ----

// How the backward of an elementwise operation makes an operand's gradient from the result's:
//
// - AsItIs: unchanged, for sums and for products with a number
// - ByOther: multiplied by the other operand, for products and quotients
// - ByItself: multiplied by a value of the operand itself, for nonlinear operations
//
// The factor is saved for backward, and the product chooses a strategy.
enum class ElementwiseStrategy : uint8_t { None, AsItIs, ByOther, ByItself };

ElementwiseStrategy elementwise_strategy(const BackwardCall& c) {
  const Linearity linearity = op_row(c.op).linearity;
  if (!is_elementwise(c.op) || c.op == OpId::Where || c.op == OpId::Copy) return ElementwiseStrategy::None;
  const bool multiplies = linearity == Linearity::Mul || linearity == Linearity::Div;
  if (linearity == Linearity::Linear || linearity == Linearity::Add || (multiplies && c.ins.size() == 1))
    return ElementwiseStrategy::AsItIs;
  if (multiplies && c.ins.size() == 2 && (linearity == Linearity::Mul || c.target == 0))
    return ElementwiseStrategy::ByOther;
  return linearity == Linearity::Other && c.ins.size() == 1 ? ElementwiseStrategy::ByItself : ElementwiseStrategy::None;
}

// Returns the tensor that autograd saves for the backward of a unary operation: the result if the derivative uses it,
// otherwise the operand.
SlotId saved_by_elementwise(const BackwardCall& c) { return op_row(c.op).saves == "r0" ? c.result : c.ins[0]; }

bool declare_elementwise(BackwardCall& c, DeclaredPlacements& declared) {
  const ElementwiseStrategy kind = elementwise_strategy(c);
  if (kind == ElementwiseStrategy::None) return false;
  if (kind == ElementwiseStrategy::AsItIs) {
    declared = reduced_placements(c, c.grad.declared);
    return true;
  }
  const Walk& walk = c.b.walk;
  const SlotId saved = kind == ElementwiseStrategy::ByOther ? c.ins[1 - c.target] : saved_by_elementwise(c);
  const DeclaredPlacements from = layout_of(walk, saved).declared;
  const Linearity linearity = op_row(c.op).linearity;
  DeclaredPlacements grad_to = c.grad.declared, saved_to = from;
  declared = from;
  for (size_t axis = 0; axis < from.size(); ++axis) {
    const std::vector<OperandSpec> specs{operand_spec(walk, c.result, c.grad.declared[axis]),
                                         operand_spec(walk, saved, from[axis])};
    const auto strategy =
        choose_strategy(pointwise_strategies(specs, linearity, false), specs,
                        {.ranks = static_cast<int64_t>(walk.memory.table.maps.axes[axis]), .takes_uneven = true});
    if (!strategy || makes_partial(*strategy, specs)) return false;
    grad_to[axis] = strategy->ins[0];
    saved_to[axis] = strategy->ins[1];
    declared[axis] = strategy->out;
  }
  redistribute_incoming_grad(c, grad_to);
  redistribute_saved(c, saved, saved_to);
  declared = reduced_placements(c, std::move(declared));
  return true;
}

// ---- views and transposes ----

constexpr auto kMoves =
    op_set({OpId::Transpose, OpId::Permute, OpId::T, OpId::Contiguous, OpId::Clone, OpId::Unsqueeze, OpId::Squeeze});

// Returns the dim of the only operand that becomes dim `to` of the result; -1 if there is none.
int dim_before(Walk& walk, const TapeEntry& entry, SlotId operand, size_t axis, int to) {
  const GraphNode& node = walk.in.graph.nodes[entry.node];
  const std::vector<ValueId> values = input_values(walk, node);
  const auto shape = shape_of(walk, operand);
  const ValueLayoutId before = walk.memory.layout_of[values[0]];
  int found = -1;
  for (size_t dim = 0; dim < shape.size() && found < 0; ++dim) {
    DeclaredPlacements declared = replicated_placements(walk);
    declared[axis] = shard_of(dim);
    walk.memory.layout_of[values[0]] = intern(walk.memory.table, placed_layout(walk.memory.table, shape, declared));
    OpCall call = op_call_of(walk, node);
    const OpResult result = run_rule(call);
    if (result.outs.empty() || static_cast<size_t>(to) >= result.outs[0].dims.size()) continue;
    const DimLayout& map = walk.memory.table.maps.maps[result.outs[0].dims[static_cast<size_t>(to)]];
    if ((map.axes & axis_bit(axis)) != 0) found = static_cast<int>(dim);
  }
  walk.memory.layout_of[values[0]] = before;
  return found;
}

bool declare_moved(BackwardCall& c, DeclaredPlacements& declared) {
  Walk& walk = c.b.walk;
  if (c.ins.size() != 1 || !(is_view(c.op) || kMoves[index_of(c.op)])) return false;
  const std::vector<int64_t> from = sizes_of(walk, c.result), to = sizes_of(walk, c.ins[0]);
  declared = c.grad.declared;
  for (size_t axis = 0; axis < declared.size(); ++axis) {
    if (!is_shard(declared[axis])) continue;
    if (is_view(c.op)) {
      std::string ignored;
      const auto one =
          view_placement(declared[axis], from, to, static_cast<int64_t>(walk.memory.table.maps.axes[axis]), ignored);
      if (!one || one->in != declared[axis]) return false;
      declared[axis] = one->out;
      continue;
    }
    declared[axis].dim = dim_before(walk, c.entry, c.ins[0], axis, declared[axis].dim);
    if (declared[axis].dim < 0) return false;
  }
  return true;
}

bool is_foreign(const Grad& grad, const ValueLayout& y) {
  for (size_t axis = 0; axis < grad.declared.size(); ++axis) {
    if (is_shard(grad.declared[axis]) && grad.declared[axis] != y.declared[axis]) return true;
  }
  return false;
}

BackwardCall backward_call_of(Backward& b, const TapeEntry& entry, size_t i, size_t o) {
  BackwardCall call{.b = b,
                    .entry = entry,
                    .op = op_of(b.walk, entry),
                    .ins = {},
                    .result = b.walk.memory.tape_slots[entry.out_begin + o].slot,
                    .target = i,
                    .grad = {}};
  for (uint32_t in = entry.in_begin; in < entry.in_end; ++in) call.ins.push_back(b.walk.memory.tape_slots[in].slot);
  call.grad = b.grads[call.result];
  return call;
}

}  // namespace

void redistribute_result_grad(Backward& b, const TapeEntry& entry, size_t o) {
  Walk& walk = b.walk;
  const TapeSlot& result = walk.memory.tape_slots[entry.out_begin + o];
  if (!is_exact(b, entry, result)) {
    reduce_incoming_grad(b, entry, result, result.layout);
    return;
  }
  BackwardCall call = backward_call_of(b, entry, 0, o);
  if (kMatmuls[index_of(call.op)] || elementwise_strategy(call) != ElementwiseStrategy::None || has_derivative(call))
    return;
  if (DeclaredPlacements taken; declare_moved(call, taken)) return;
  const ValueLayout y = walk.memory.table.layouts[result.layout];
  if (is_foreign(call.grad, y)) {
    redistribute_incoming_grad(call, gradient_placements(y.declared));
    b.grads[result.slot] = std::move(call.grad);
  }
  reduce_incoming_grad(b, entry, result, declared_layout_of(walk, result.slot, b.grads[result.slot].declared));
}

bool dtensor_grad(Backward& b, const TapeEntry& entry, size_t i, size_t o, Grad& grad) {
  Walk& walk = b.walk;
  const TapeSlot& result = walk.memory.tape_slots[entry.out_begin + o];
  if (!is_exact(b, entry, result)) return false;
  BackwardCall call = backward_call_of(b, entry, i, o);
  DeclaredPlacements declared;
  const bool known = kMatmuls[index_of(call.op)] ? declare_matmul(call, declared)
                                                 : declare_elementwise(call, declared) ||
                                                       (has_derivative(call) && apply_derivative(call, declared)) ||
                                                       declare_moved(call, declared);
  if (!known || call.grad.state == kWrongGrad) return false;
  const bool made_partial = (partial_mask(declared) & ~call.grad.state.partial) != 0;
  grad = std::move(call.grad);
  grad.state = {GradKind::Known, partial_mask(declared)};
  grad.layout = declared_layout_of(walk, call.ins[i], declared);
  grad.declared = std::move(declared);
  if (made_partial && walk.memory.slots[result.slot].origin != kNoRule)
    grad.rule = walk.memory.slots[result.slot].origin;
  return true;
}

}  // namespace tpplan
