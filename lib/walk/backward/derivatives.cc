#include "walk/backward/derivatives.h"

#include <algorithm>
#include <cmath>

#include "ops/op_rules.h"
#include "walk/state/node_args.h"
#include "walk/state/slots.h"

namespace tpplan {
namespace {

// Returns a flag for each dim of the operand: true if the reduction covers it.
std::vector<bool> reduced_dims(const BackwardCall& c) {
  OpCall call = op_call_of(c.b.walk, c.b.walk.in.graph.nodes[c.entry.node]);
  prepare_call(call);
  return dims_of_operation(call);
}

// A tensor in a derivative. `is_gradient`: the gradient of the result, whose state changes when it is redistributed.
struct Made {
  DeclaredPlacements at;
  std::vector<int64_t> shape;
  bool is_gradient = false;
};

struct Derivative {
  BackwardCall& c;
  std::vector<bool> along;  // dims that the reduction covers
  bool keeps_dims = true;   // the result keeps these dims, with size 1
  bool known = true;        // every operation so far has a strategy
};

Derivative reduction_of(BackwardCall& c) {
  Derivative d{.c = c, .along = reduced_dims(c)};
  d.keeps_dims = shape_of(c.b.walk, c.result).size() == d.along.size();
  return d;
}

// Return the placement of the result if it kept its reduced dims, and the reverse.
Placement with_dims(const Derivative& d, Placement at) {
  if (!is_shard(at) || d.keeps_dims) return at;
  for (size_t dim = 0; dim <= static_cast<size_t>(at.dim) && dim < d.along.size(); ++dim) at.dim += d.along[dim];
  return at;
}

Placement without_dims(const Derivative& d, Placement at) {
  if (is_shard(at) && !d.keeps_dims)
    at.dim -= static_cast<int>(std::count(d.along.begin(), d.along.begin() + at.dim, true));
  return at;
}

Made operand_of(const Derivative& d, size_t operand) {
  const Walk& walk = d.c.b.walk;
  return {layout_of(walk, d.c.ins[operand]).declared, sizes_of(walk, d.c.ins[operand])};
}

// Returns the result or its gradient, with the reduced dims as dims of size 1.
Made result_of(const Derivative& d, DeclaredPlacements declared, bool is_gradient) {
  std::vector<int64_t> shape = sizes_of(d.c.b.walk, d.keeps_dims ? d.c.result : d.c.ins[0]);
  for (size_t dim = 0; dim < d.along.size(); ++dim) shape[dim] = d.along[dim] ? 1 : shape[dim];
  for (Placement& placement : declared) placement = with_dims(d, placement);
  return {std::move(declared), std::move(shape), is_gradient};
}

Made result_of(const Derivative& d) { return result_of(d, layout_of(d.c.b.walk, d.c.result).declared, false); }
Made gradient_of(const Derivative& d) { return result_of(d, d.c.grad.declared, true); }

void redistribute_operand(Derivative& d, const Made& made, DeclaredPlacements to) {
  if (!made.is_gradient) return redistribute_intermediate(d.c, d.c.result, made.shape, made.at, to);
  for (Placement& placement : to) placement = without_dims(d, placement);
  redistribute_incoming_grad(d.c, to);
}

OperandSpec operand_spec(const Derivative& d, const Made& made, size_t axis) {
  OperandSpec spec_of_operand = operand_spec(d.c.b.walk, d.c.result, made.at[axis]);
  spec_of_operand.shape = made.shape;
  return spec_of_operand;
}

// Applies an elementwise operation to two tensors, with redistributions to the strategy that it chooses.
Made by_elements(Derivative& d, const Made& a, const Made& b, Linearity linearity) {
  const Walk& walk = d.c.b.walk;
  DeclaredPlacements a_to = a.at, b_to = b.at;
  Made out{.at = a.at, .shape = a.shape.size() < b.shape.size() ? b.shape : a.shape};
  const Made& other = a.shape.size() < b.shape.size() ? a : b;
  const size_t missing = out.shape.size() - other.shape.size();
  for (size_t dim = 0; dim < other.shape.size(); ++dim)
    out.shape[missing + dim] = std::max(out.shape[missing + dim], other.shape[dim]);
  for (size_t axis = 0; axis < a.at.size() && d.known; ++axis) {
    const std::vector<OperandSpec> specs{operand_spec(d, a, axis), operand_spec(d, b, axis)};
    const auto strategy =
        choose_strategy(pointwise_strategies(specs, linearity, false), specs,
                        {.ranks = static_cast<int64_t>(walk.memory.table.maps.axes[axis]), .takes_uneven = true});
    d.known = strategy && !makes_partial(*strategy, specs);
    if (!d.known) return out;
    a_to[axis] = strategy->ins[0];
    b_to[axis] = strategy->ins[1];
    out.at[axis] = strategy->out;
  }
  redistribute_operand(d, a, std::move(a_to));
  redistribute_operand(d, b, std::move(b_to));
  return out;
}

// Reduces a partial tensor for a nonlinear operation.
Made reduce_partial_operand(Derivative& d, const Made& made) {
  Made values = made;
  for (Placement& placement : values.at) placement = is_shard(placement) ? placement : Placement{};
  redistribute_operand(d, made, values.at);
  return values;
}

// Returns `x` reduced to size 1 along the reduced dims. It is Partial over the axes that shard them.
Made reduced(const Derivative& d, const Made& x, ReduceOp op) {
  Made made{.at = x.at, .shape = result_of(d).shape};
  for (Placement& at : made.at) {
    if (is_shard(at) && d.along[static_cast<size_t>(at.dim)]) at = {.kind = PlacementKind::Partial, .op = op};
  }
  return made;
}

// Each element has the gradient of the result.
Made sum_grad(Derivative& d) { return gradient_of(d); }

// The rest follows at::native and FunctionsManual.cpp of torch 2.13, compared with the calls of single derivatives.

// grad / self ** (p - 1), filled where the norm is 0
Made scaled_gradient(Derivative& d) {
  const Made scaled = by_elements(d, gradient_of(d), reduce_partial_operand(d, result_of(d)), Linearity::Div);
  reduce_partial_operand(d, result_of(d));
  return scaled;
}

// p 2: grad * (self / norm).masked_fill_(norm == 0, 0). p inf: sgn(self) * ((abs(self) == norm) * (grad / count)).
// Other p: sgn(self) * abs(self) ** (p - 1), times grad / norm ** (p - 1).
Made norm_grad(Derivative& d) {
  const double p = norm_order(d.c.b.walk, d.c.entry);
  if (p == 2) {
    const Made quotient = by_elements(d, operand_of(d, 0), result_of(d), Linearity::Div);
    reduce_partial_operand(d, result_of(d));
    return by_elements(d, gradient_of(d), quotient, Linearity::Mul);
  }
  if (p > 2 && !std::isinf(p)) {
    const Made powers = by_elements(d, operand_of(d, 0), reduce_partial_operand(d, operand_of(d, 0)), Linearity::Mul);
    return by_elements(d, powers, scaled_gradient(d), Linearity::Mul);
  }
  const Made sign = reduce_partial_operand(d, operand_of(d, 0));
  if (p == 1) return by_elements(d, sign, gradient_of(d), Linearity::Mul);
  reduce_partial_operand(d, operand_of(d, 0));
  if (std::isinf(p)) {
    const Made mask = by_elements(d, sign, result_of(d), Linearity::Other);
    const Made share = by_elements(d, gradient_of(d), reduced(d, mask, ReduceOp::Sum), Linearity::Div);
    return by_elements(d, sign, by_elements(d, mask, share, Linearity::Mul), Linearity::Mul);
  }
  if (p > 1) return by_elements(d, sign, scaled_gradient(d), Linearity::Mul);
  reduce_partial_operand(d, operand_of(d, 0));
  const Made times = by_elements(d, sign, gradient_of(d), Linearity::Mul);
  return by_elements(d, times, reduce_partial_operand(d, result_of(d)), Linearity::Mul);
}

// (2 / (count - correction)) * grad * (self - self.mean(dim, keepdim)). The mean gathers uneven shards.
Made broadcast_grad(Derivative& d, const Made& gradient) {
  const Made self = operand_of(d, 0);
  Made even = self;
  for (size_t axis = 0; axis < even.at.size(); ++axis) {
    Placement& at = even.at[axis];
    const auto ranks = static_cast<int64_t>(d.c.b.walk.memory.table.maps.axes[axis]);
    const bool is_uneven =
        is_shard(at) && d.along[static_cast<size_t>(at.dim)] && self.shape[static_cast<size_t>(at.dim)] % ranks != 0;
    if (is_uneven || (at.kind == PlacementKind::Partial && at.op != ReduceOp::Avg)) at = {};
  }
  redistribute_operand(d, self, even.at);
  const Made centred = by_elements(d, self, reduced(d, even, ReduceOp::Avg), Linearity::Add);
  return by_elements(d, gradient, centred, Linearity::Mul);
}

Made var_grad(Derivative& d) { return broadcast_grad(d, gradient_of(d)); }

// broadcast_grad of (grad / (2 * std)).masked_fill_(std == 0, 0)
Made std_grad(Derivative& d) {
  const Made divided = by_elements(d, gradient_of(d), result_of(d), Linearity::Div);
  reduce_partial_operand(d, result_of(d));
  return broadcast_grad(d, divided);
}

// grad / mask.sum() * mask, with the mask `result == self`
Made extreme_grad(Derivative& d) {
  const Made mask = by_elements(d, result_of(d), operand_of(d, 0), Linearity::Other);
  const Made share = by_elements(d, gradient_of(d), reduced(d, mask, ReduceOp::Sum), Linearity::Div);
  return by_elements(d, share, mask, Linearity::Mul);
}

// -grad * (self / other / other), summed over the dims along which `other` is broadcast
Made divisor_grad(Derivative& d) {
  const Made once = by_elements(d, operand_of(d, 0), operand_of(d, 1), Linearity::Div);
  const Made twice = by_elements(d, once, operand_of(d, 1), Linearity::Div);
  Made found = by_elements(d, gradient_of(d), twice, Linearity::Mul);
  found.at = reduced_placements(d.c, std::move(found.at));
  return found;
}

struct DerivativeRow {
  Made (*input_grad)(Derivative&) = nullptr;
  size_t operands = 1;
  size_t target = 0;  // the operand of this gradient
};

constexpr auto kDerivatives = by_op<DerivativeRow>({
    {OpId::Sum, {sum_grad}},
    {OpId::Mean, {sum_grad}},
    {OpId::Norm, {norm_grad}},
    {OpId::LinalgVectorNorm, {norm_grad}},
    {OpId::Amax, {extreme_grad}},
    {OpId::Amin, {extreme_grad}},
    {OpId::Div, {divisor_grad, 2, 1}},
    {OpId::Var, {var_grad}},
    {OpId::Std, {std_grad}},
});

}  // namespace

double norm_order(Walk& walk, const TapeEntry& entry) {
  OpCall call = op_call_of(walk, walk.in.graph.nodes[entry.node]);
  prepare_call(call);
  const GraphArg* p = find_arg(call, 1, call.node.op == OpId::Norm ? "p" : "ord");
  return p == nullptr || p->kind == ArgKind::None || p->kind == ArgKind::Text ? 2 : p->number;
}

bool has_derivative(const BackwardCall& c) {
  const DerivativeRow& row = kDerivatives[index_of(c.op)];
  if (row.input_grad == nullptr || c.ins.size() != row.operands || c.target != row.target) return false;
  return row.input_grad != norm_grad || norm_order(c.b.walk, c.entry) != 0;  // a norm of order 0 counts elements
}

bool apply_derivative(BackwardCall& c, DeclaredPlacements& declared) {
  const DerivativeRow& row = kDerivatives[index_of(c.op)];
  Derivative d = row.input_grad == divisor_grad ? Derivative{.c = c} : reduction_of(c);
  declared = row.input_grad(d).at;
  return d.known;
}

}  // namespace tpplan
