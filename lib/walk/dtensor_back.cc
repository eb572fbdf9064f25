#include "walk/dtensor_back.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <tuple>

#include "sharding/dtype.h"
#include "walk/dtensor_views.h"
#include "walk/node_args.h"
#include "walk/product_folds.h"
#include "walk/redistribute_grad.h"
#include "walk/slots.h"

namespace tpplan {
namespace {

// One operation, one operand and one result of it, and the result's gradient.
struct BackCall {
  Backward& b;
  const TapeEntry& entry;
  std::string_view op;
  std::vector<SlotId> ins;
  SlotId result = 0;
  size_t target = 0;
  Grad grad;
};

std::vector<int64_t> sizes_of(const Walk& walk, SlotId slot) {
  const auto shape = shape_of(walk, slot);
  return {shape.begin(), shape.end()};
}

// What ranks hold of a tensor that is placed so; an open sum is as large as the whole.
SpreadId pieces_of(Walk& walk, SlotId slot, const Claim& claim) {
  Spread pieces = placed_layout(walk.table, shape_of(walk, slot), claim);
  pieces.partial = 0;
  return intern(walk.table, pieces);
}

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
  if (b.as_claimed.size() <= layout) b.as_claimed.resize(b.walk.table.layouts.size() + 1);
  if (b.as_claimed[layout] == 0) b.as_claimed[layout] = holds_claim(b.walk, Spread(held)) ? 1 : 2;
  return b.as_claimed[layout] == 1;
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

void bring_grad(BackCall& c, const Claim& to) {
  c.grad.layout = pieces_of(c.b.walk, c.result, c.grad.claim);
  c.grad = redistribute_claim(c.b, c.entry, std::move(c.grad), to, c.result, true);
  c.grad.has_claim = true;
}

// The calls that bring a tensor of the slot's sizes from one layout to another.
void bring_made(BackCall& c, SlotId slot, Claim at, const Claim& to) {
  Walk& walk = c.b.walk;
  for (const Collective& step : redistribute(at, to).value_or(std::vector<Collective>{})) {
    const Spread held = walk.table.layouts[pieces_of(walk, slot, at)];
    if (step.kind != CollectiveKind::LocalSlice) record_grad_call(c.b, c.entry, step, held, slot, true);
    at[step.axis] = placement_after(step, to);
  }
}

// The same of what autograd kept of an operand.
void bring_kept(BackCall& c, SlotId kept, const Claim& to) { bring_made(c, kept, layout_of(c.b.walk, kept).claim, to); }

Face face_of(const Walk& walk, SlotId slot, const Placement& at) {
  DType type{};
  const bool known = find_dtype(dtype_of(walk, slot), type);
  return {.shape = sizes_of(walk, slot), .at = at, .bytes = known ? static_cast<double>(dtypes()[type].bits) / 8 : 8};
}

// Whether a tensor that is none would become an open sum.
bool opens(const Way& way, std::span<const Face> faces) {
  for (size_t i = 0; i < faces.size(); ++i) {
    if (way.ins[i].kind == PlacementKind::Partial && way.ins[i] != faces[i].at) return true;
  }
  return false;
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

// Placements of a gradient that is summed over the dims along which its operand is broadcast.
Claim summed_claim(const BackCall& c, Claim claim) {
  const auto from = shape_of(c.b.walk, c.result), to = shape_of(c.b.walk, c.ins[c.target]);
  const size_t missing = from.size() - to.size();
  for (Placement& placement : claim) {
    if (!is_shard(placement)) continue;
    const auto dim = static_cast<size_t>(placement.dim);
    if (dim < missing || to[dim - missing] != from[dim])
      placement = {.kind = PlacementKind::Partial};
    else
      placement.dim = static_cast<int>(dim - missing);
  }
  return claim;
}

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
  return kByResult.find(fmt::format(" {} ", c.op)) == std::string_view::npos ? c.ins[0] : c.result;
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

// ---- norms of vectors ----

// grad * (self / norm).masked_fill_(norm == 0, 0), each of it an operation that chooses its way (torch 2.13,
// FunctionsManual.cpp, norm_backward). Other norms than the second have other derivatives.
bool is_second_norm(const BackCall& c) {
  if (c.op != "norm" && c.op != "linalg_vector_norm") return false;
  const OpCall call = call_of(c.b.walk, c.b.walk.graph.nodes[c.entry.node]);
  const GraphArg* p = find_arg(call, 1, c.op == "norm" ? "p" : "ord");
  if (p == nullptr || p->kind == ArgKind::None) return true;
  if (p->kind == ArgKind::Text) return c.b.walk.graph.texts[p->id] == "fro";
  return p->number == 2;
}

// The dims of the operand along which it is taken.
std::vector<bool> dims_of_norm(const BackCall& c) {
  OpCall call = call_of(c.b.walk, c.b.walk.graph.nodes[c.entry.node]);
  begin_call(call);
  return dims_along(call);
}

// The result's placement where the dims that are gone stand as dims of one element, and back.
Placement with_dims(Placement at, const std::vector<bool>& along, bool keeps) {
  if (!is_shard(at) || keeps) return at;
  for (size_t dim = 0; dim <= static_cast<size_t>(at.dim) && dim < along.size(); ++dim) at.dim += along[dim];
  return at;
}

Placement without_dims(Placement at, const std::vector<bool>& along, bool keeps) {
  if (is_shard(at) && !keeps) at.dim -= static_cast<int>(std::count(along.begin(), along.begin() + at.dim, true));
  return at;
}

bool norm_claim(BackCall& c, Claim& claim) {
  if (!is_second_norm(c)) return false;
  Walk& walk = c.b.walk;
  const std::vector<bool> along = dims_of_norm(c);
  const bool keeps = shape_of(walk, c.result).size() == along.size();
  const Claim self = layout_of(walk, c.ins[0]).claim, norm = layout_of(walk, c.result).claim;
  Face small = face_of(walk, c.ins[0], {});
  for (size_t dim = 0; dim < along.size(); ++dim) small.shape[dim] = along[dim] ? 1 : small.shape[dim];
  Claim self_to = self, norm_to = norm, mask = norm, quotient = self, grad_to = c.grad.claim, quotient_to = self;
  claim = self;
  for (size_t axis = 0; axis < self.size(); ++axis) {
    const WayRules rules{.ranks = static_cast<int64_t>(walk.table.maps.axes[axis]), .takes_uneven = true};
    std::vector<Face> faces{face_of(walk, c.ins[0], self[axis]), small};
    faces[1].at = with_dims(norm[axis], along, keeps);
    const auto divided = choose_way(pointwise_ways(faces, Linearity::Div, false), faces, rules);
    if (!divided || opens(*divided, faces)) return false;
    self_to[axis] = divided->ins[0];
    norm_to[axis] = without_dims(divided->ins[1], along, keeps);
    quotient[axis] = divided->out;
    if (!is_shard(mask[axis])) mask[axis] = {};
    faces = {small, face_of(walk, c.ins[0], quotient[axis])};
    faces[0].at = with_dims(c.grad.claim[axis], along, keeps);
    const auto multiplied = choose_way(pointwise_ways(faces, Linearity::Mul, false), faces, rules);
    if (!multiplied || opens(*multiplied, faces)) return false;
    grad_to[axis] = without_dims(multiplied->ins[0], along, keeps);
    quotient_to[axis] = multiplied->ins[1];
    claim[axis] = multiplied->out;
  }
  bring_kept(c, c.ins[0], self_to);
  bring_kept(c, c.result, norm_to);
  bring_kept(c, c.result, mask);
  bring_grad(c, grad_to);
  bring_made(c, c.ins[0], quotient, quotient_to);
  return true;
}

// ---- views and transposes ----

bool moves_dims(std::string_view op) {
  constexpr std::string_view kMoves = " transpose permute t contiguous clone swapaxes unsqueeze squeeze ";
  return kMoves.find(fmt::format(" {} ", op)) != std::string_view::npos;
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
  if (runs_product(call.op) || element_way(call) != ElementWay::None || is_second_norm(call)) return;
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
  const bool known = runs_product(call.op)
                         ? product_claim(call, claim)
                         : element_claim(call, claim) || norm_claim(call, claim) || moved_claim(call, claim);
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
