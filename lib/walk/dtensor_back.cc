#include "walk/dtensor_back.h"

#include <algorithm>
#include <tuple>

#include "ops/op_names.h"
#include "sharding/dtype.h"
#include "walk/back_call.h"
#include "walk/derivatives.h"
#include "walk/dtensor_views.h"
#include "walk/node_args.h"
#include "walk/product_folds.h"
#include "walk/redistribute_grad.h"
#include "walk/slots.h"

namespace tpplan {
namespace {

bool holds_claim(Walk& walk, const Spread& held) {
  if (!held.is_dtensor) return false;
  const Spread claimed = placed_layout(walk.table, held.claimed_shape, held.claim);
  return held.dims == claimed.dims && held.partial == claimed.partial;
}

bool is_as_claimed(Backward& b, SlotId slot, SpreadId layout) {
  const auto shape = shape_of(b.walk, slot);
  const Spread& held = b.walk.table.layouts[layout];
  if (!held.is_dtensor || !std::equal(shape.begin(), shape.end(), held.claimed_shape.begin(), held.claimed_shape.end()))
    return false;
  std::vector<uint8_t>& as_claimed = b.walk.tables.as_claimed;
  if (as_claimed.size() <= layout) as_claimed.resize(b.walk.table.layouts.size() + 1);
  if (as_claimed[layout] == 0) as_claimed[layout] = holds_claim(b.walk, Spread(held)) ? 1 : 2;
  return as_claimed[layout] == 1;
}

bool is_as_claimed(const Grad& grad) {
  return grad.has_claim && grad.segments.empty() && grad.state.kind == GradKind::Known &&
         grad.state.open == open_mask(grad.claim);
}

bool is_exact(Backward& b, const TapeEntry& entry, const TapeSlot& result) {
  const Walk& walk = b.walk;
  const Grad& grad = b.grads[result.slot];
  if (entry.kind != TapeKind::Op || !is_as_claimed(grad)) return false;
  const auto held = [&](const TapeSlot& slot) {
    return is_as_claimed(b, slot.slot, slot.layout) && is_as_claimed(b, slot.slot, walk.slots[slot.slot].layout);
  };
  const auto ins = std::span(walk.tape_slots).subspan(entry.in_begin, entry.in_end - entry.in_begin);
  return held(result) && std::all_of(ins.begin(), ins.end(), held);
}

// ---- products ----

bool runs_product(std::string_view op) { return op == "linear" || op == "matmul" || op == "bmm" || op == "mm"; }

Face folded_face(const Walk& walk, SlotId slot, const Placement& at, const std::vector<int64_t>& folded,
                 int64_t ranks) {
  Face face = face_of(walk, slot, folded_placement(at, sizes_of(walk, slot), folded, ranks));
  face.shape = folded;
  return face;
}

Folds folds_of(const BackCall& c) {
  std::vector<std::vector<int64_t>> shapes;
  for (const SlotId slot : c.ins) shapes.push_back(sizes_of(c.b.walk, slot));
  const std::vector<int64_t> out = sizes_of(c.b.walk, c.result);
  return c.op == "linear" ? linear_folds(shapes, out) : matmul_folds(shapes, out);
}

// The gradient's rows are summed up.
Claim bias_claim(const BackCall& c) {
  Claim claim = c.grad.claim;
  const auto last = static_cast<int>(shape_of(c.b.walk, c.result).size()) - 1;
  for (Placement& placement : claim) {
    if (!is_shard(placement)) continue;
    const bool stays = placement.dim == last;
    placement = stays ? shard_of(0) : Placement{.kind = PlacementKind::Partial};
  }
  return claim;
}

bool product_claim(BackCall& c, Claim& claim) {
  if (c.target > 1) {
    claim = bias_claim(c);
    return true;
  }
  const Walk& walk = c.b.walk;
  const Folds folds = folds_of(c);
  const SlotId kept = c.ins[1 - c.target];
  std::vector<ProductDim> dims;
  for (const ProductDim& dim : folds.dims)
    dims.push_back({.a = dim.out, .b = c.target == 0 ? dim.b : dim.a, .out = c.target == 0 ? dim.a : dim.b});
  const Claim from = layout_of(walk, kept).claim;
  Claim grad_to = c.grad.claim, kept_to = from;
  claim = from;
  for (size_t axis = 0; axis < from.size(); ++axis) {
    const auto ranks = static_cast<int64_t>(walk.table.maps.axes[axis]);
    const std::vector<Face> faces{folded_face(walk, c.result, c.grad.claim[axis], folds.out, ranks),
                                  folded_face(walk, kept, from[axis], folds.operands[1 - c.target], ranks)};
    const auto way = choose_way(product_ways(faces, dims, false), faces, {.ranks = ranks});
    if (!way || opens(*way, faces)) return false;
    if (way->ins[0] != faces[0].at)
      grad_to[axis] = folded_placement(way->ins[0], folds.out, sizes_of(walk, c.result), ranks);
    if (way->ins[1] != faces[1].at)
      kept_to[axis] = folded_placement(way->ins[1], faces[1].shape, sizes_of(walk, kept), ranks);
    claim[axis] = folded_placement(way->out, folds.operands[c.target], sizes_of(walk, c.ins[c.target]), ranks);
  }
  bring_grad(c, grad_to);
  bring_kept(c, kept, kept_to);
  return true;
}

// ---- by elements ----

// Sums and multiples by a number give the gradient as it is. What else is linear in the operand multiplies it by the
// other one, what is not by a value of the operand itself; that is kept, and both choose a way.
enum class ElementWay : uint8_t { None, AsItIs, ByOther, ByItself };

ElementWay element_way(const BackCall& c) {
  Linearity linearity{};
  if (!find_pointwise(c.op, linearity) || c.op == "where" || c.op == "copy") return ElementWay::None;
  const bool is_product = linearity == Linearity::Mul || linearity == Linearity::Div;
  if (linearity == Linearity::Linear || linearity == Linearity::Add || (is_product && c.ins.size() == 1))
    return ElementWay::AsItIs;
  if (is_product && c.ins.size() == 2 && (linearity == Linearity::Mul || c.target == 0)) return ElementWay::ByOther;
  return linearity == Linearity::Other && c.ins.size() == 1 ? ElementWay::ByItself : ElementWay::None;
}

// What autograd keeps of an operation by elements on one tensor: its result where the derivative is easier said by
// that.
SlotId kept_by_itself(const BackCall& c) {
  constexpr std::string_view kByResult = " relu sigmoid tanh exp expm1 sqrt rsqrt reciprocal ";
  return lists_op(kByResult, c.op) ? c.result : c.ins[0];
}

bool element_claim(BackCall& c, Claim& claim) {
  const ElementWay kind = element_way(c);
  if (kind == ElementWay::None) return false;
  if (kind == ElementWay::AsItIs) {
    claim = summed_claim(c, c.grad.claim);
    return true;
  }
  const Walk& walk = c.b.walk;
  const SlotId kept = kind == ElementWay::ByOther ? c.ins[1 - c.target] : kept_by_itself(c);
  const Claim from = layout_of(walk, kept).claim;
  Linearity linearity{};
  std::ignore = find_pointwise(c.op, linearity);
  Claim grad_to = c.grad.claim, kept_to = from;
  claim = from;
  for (size_t axis = 0; axis < from.size(); ++axis) {
    const std::vector<Face> faces{face_of(walk, c.result, c.grad.claim[axis]), face_of(walk, kept, from[axis])};
    const auto way = choose_way(pointwise_ways(faces, linearity, false), faces,
                                {.ranks = static_cast<int64_t>(walk.table.maps.axes[axis]), .takes_uneven = true});
    if (!way || opens(*way, faces)) return false;
    grad_to[axis] = way->ins[0];
    kept_to[axis] = way->ins[1];
    claim[axis] = way->out;
  }
  bring_grad(c, grad_to);
  bring_kept(c, kept, kept_to);
  claim = summed_claim(c, std::move(claim));
  return true;
}

// ---- views and transposes ----

bool moves_dims(std::string_view op) {
  constexpr std::string_view kMoves = " transpose permute t contiguous clone swapaxes unsqueeze squeeze ";
  return lists_op(kMoves, op);
}

// The dim of the only operand that goes to dim `to` of the result; -1: none does.
int dim_before(Walk& walk, const TapeEntry& entry, SlotId operand, size_t axis, int to) {
  const GraphNode& node = walk.graph.nodes[entry.node];
  const std::vector<ValueId> values = values_in(walk, node);
  const auto shape = shape_of(walk, operand);
  const SpreadId before = walk.layout_of[values[0]];
  int found = -1;
  for (size_t dim = 0; dim < shape.size() && found < 0; ++dim) {
    Claim claim = whole_claim(walk);
    claim[axis] = shard_of(dim);
    walk.layout_of[values[0]] = intern(walk.table, placed_layout(walk.table, shape, claim));
    OpCall call = call_of(walk, node);
    const OpResult result = run_rule(call);
    if (result.outs.empty() || static_cast<size_t>(to) >= result.outs[0].dims.size()) continue;
    const DimMap& map = walk.table.maps.maps[result.outs[0].dims[static_cast<size_t>(to)]];
    if ((map.axes & axis_bit(axis)) != 0) found = static_cast<int>(dim);
  }
  walk.layout_of[values[0]] = before;
  return found;
}

bool moved_claim(BackCall& c, Claim& claim) {
  Walk& walk = c.b.walk;
  if (c.ins.size() != 1 || !(is_view(c.op) || moves_dims(c.op))) return false;
  const std::vector<int64_t> from = sizes_of(walk, c.result), to = sizes_of(walk, c.ins[0]);
  claim = c.grad.claim;
  for (size_t axis = 0; axis < claim.size(); ++axis) {
    if (!is_shard(claim[axis])) continue;
    if (is_view(c.op)) {
      std::string ignored;
      const auto one = viewed(claim[axis], from, to, static_cast<int64_t>(walk.table.maps.axes[axis]), ignored);
      if (!one || one->in != claim[axis]) return false;
      claim[axis] = one->out;
      continue;
    }
    claim[axis].dim = dim_before(walk, c.entry, c.ins[0], axis, claim[axis].dim);
    if (claim[axis].dim < 0) return false;
  }
  return true;
}

bool is_foreign(const Grad& grad, const Spread& y) {
  for (size_t axis = 0; axis < grad.claim.size(); ++axis) {
    if (is_shard(grad.claim[axis]) && grad.claim[axis] != y.claim[axis]) return true;
  }
  return false;
}

BackCall back_call(Backward& b, const TapeEntry& entry, size_t i, size_t o) {
  BackCall call{.b = b,
                .entry = entry,
                .op = b.walk.graph.strings[b.walk.graph.nodes[entry.node].name],
                .ins = {},
                .result = b.walk.tape_slots[entry.out_begin + o].slot,
                .target = i,
                .grad = {}};
  for (uint32_t in = entry.in_begin; in < entry.in_end; ++in) call.ins.push_back(b.walk.tape_slots[in].slot);
  call.grad = b.grads[call.result];
  return call;
}

}  // namespace

void bring_result_grad(Backward& b, const TapeEntry& entry, size_t o) {
  Walk& walk = b.walk;
  const TapeSlot& result = walk.tape_slots[entry.out_begin + o];
  if (!is_exact(b, entry, result)) {
    close_before(b, entry, result, result.layout);
    return;
  }
  BackCall call = back_call(b, entry, 0, o);
  if (runs_product(call.op) || element_way(call) != ElementWay::None || has_derivative(call)) return;
  if (Claim taken; moved_claim(call, taken)) return;
  const Spread y = walk.table.layouts[result.layout];
  if (is_foreign(call.grad, y)) {
    bring_grad(call, for_gradient(y.claim));
    b.grads[result.slot] = std::move(call.grad);
  }
  close_before(b, entry, result, pieces_of(walk, result.slot, b.grads[result.slot].claim));
}

bool dtensor_grad(Backward& b, const TapeEntry& entry, size_t i, size_t o, Grad& grad) {
  Walk& walk = b.walk;
  const TapeSlot& result = walk.tape_slots[entry.out_begin + o];
  if (!is_exact(b, entry, result)) return false;
  BackCall call = back_call(b, entry, i, o);
  Claim claim;
  const bool known =
      runs_product(call.op)
          ? product_claim(call, claim)
          : element_claim(call, claim) || (has_derivative(call) && derive(call, claim)) || moved_claim(call, claim);
  if (!known || call.grad.state == kWrongGrad) return false;
  const bool opened = (open_mask(claim) & ~call.grad.state.open) != 0;
  grad = std::move(call.grad);
  grad.state = {GradKind::Known, open_mask(claim)};
  grad.layout = pieces_of(walk, call.ins[i], claim);
  grad.claim = std::move(claim);
  if (opened && walk.slots[result.slot].origin != kNoRule) grad.rule = walk.slots[result.slot].origin;
  return true;
}

}  // namespace tpplan
