#include "walk/derivatives.h"

#include <algorithm>
#include <cmath>

#include "walk/node_args.h"
#include "walk/slots.h"

namespace tpplan {
namespace {

// The dims of the operand along which a reduction is taken.
std::vector<bool> reduced_dims(const BackCall& c) {
  OpCall call = call_of(c.b.walk, c.b.walk.graph.nodes[c.entry.node]);
  begin_call(call);
  return dims_along(call);
}

// A tensor that a derivative works with. The gradient itself is closed where it is brought.
struct Made {
  Claim at;
  std::vector<int64_t> shape;
  bool is_gradient = false;
};

struct Derivative {
  BackCall& c;
  std::vector<bool> along;  // of a reduction
  bool keeps = true;        // as dims of one element
  bool known = true;        // each operation so far has a way
};

Derivative reduction_of(BackCall& c) {
  Derivative d{.c = c, .along = reduced_dims(c)};
  d.keeps = shape_of(c.b.walk, c.result).size() == d.along.size();
  return d;
}

// The result's placement where the dims that are gone stand as dims of one element, and back.
Placement with_dims(const Derivative& d, Placement at) {
  if (!is_shard(at) || d.keeps) return at;
  for (size_t dim = 0; dim <= static_cast<size_t>(at.dim) && dim < d.along.size(); ++dim) at.dim += d.along[dim];
  return at;
}

Placement without_dims(const Derivative& d, Placement at) {
  if (is_shard(at) && !d.keeps) at.dim -= static_cast<int>(std::count(d.along.begin(), d.along.begin() + at.dim, true));
  return at;
}

Made operand_of(const Derivative& d, size_t operand) {
  const Walk& walk = d.c.b.walk;
  return {layout_of(walk, d.c.ins[operand]).claim, sizes_of(walk, d.c.ins[operand])};
}

// The result or its gradient, the dims that are gone put back.
Made result_of(const Derivative& d, Claim claim, bool is_gradient) {
  std::vector<int64_t> shape = sizes_of(d.c.b.walk, d.keeps ? d.c.result : d.c.ins[0]);
  for (size_t dim = 0; dim < d.along.size(); ++dim) shape[dim] = d.along[dim] ? 1 : shape[dim];
  for (Placement& placement : claim) placement = with_dims(d, placement);
  return {std::move(claim), std::move(shape), is_gradient};
}

Made result_of(const Derivative& d) { return result_of(d, layout_of(d.c.b.walk, d.c.result).claim, false); }
Made gradient_of(const Derivative& d) { return result_of(d, d.c.grad.claim, true); }

void bring(Derivative& d, const Made& made, Claim to) {
  if (!made.is_gradient) return bring_made(d.c, d.c.result, made.shape, made.at, to);
  for (Placement& placement : to) placement = without_dims(d, placement);
  bring_grad(d.c, to);
}

Face face_of(const Derivative& d, const Made& made, size_t axis) {
  Face face = face_of(d.c.b.walk, d.c.result, made.at[axis]);
  face.shape = made.shape;
  return face;
}

// An operation by elements on both of them chooses its way.
Made by_elements(Derivative& d, const Made& a, const Made& b, Linearity linearity) {
  const Walk& walk = d.c.b.walk;
  Claim a_to = a.at, b_to = b.at;
  Made out{.at = a.at, .shape = a.shape.size() < b.shape.size() ? b.shape : a.shape};
  const Made& other = a.shape.size() < b.shape.size() ? a : b;
  const size_t missing = out.shape.size() - other.shape.size();
  for (size_t dim = 0; dim < other.shape.size(); ++dim)
    out.shape[missing + dim] = std::max(out.shape[missing + dim], other.shape[dim]);
  for (size_t axis = 0; axis < a.at.size() && d.known; ++axis) {
    const std::vector<Face> faces{face_of(d, a, axis), face_of(d, b, axis)};
    const auto way = choose_way(pointwise_ways(faces, linearity, false), faces,
                                {.ranks = static_cast<int64_t>(walk.table.maps.axes[axis]), .takes_uneven = true});
    d.known = way && !opens(*way, faces);
    if (!d.known) return out;
    a_to[axis] = way->ins[0];
    b_to[axis] = way->ins[1];
    out.at[axis] = way->out;
  }
  bring(d, a, std::move(a_to));
  bring(d, b, std::move(b_to));
  return out;
}

// What goes by its values is no term of a sum: an operation on it brings it to this.
Made closed(Derivative& d, const Made& made) {
  Made values = made;
  for (Placement& placement : values.at) placement = is_shard(placement) ? placement : Placement{};
  bring(d, made, values.at);
  return values;
}

// The dims that are gone, as dims of one element of `x`: an open sum, or mean, of its pieces.
Made reduced(const Derivative& d, const Made& x, ReduceOp op) {
  Made made{.at = x.at, .shape = result_of(d).shape};
  for (Placement& at : made.at) {
    if (is_shard(at) && d.along[static_cast<size_t>(at.dim)]) at = {.kind = PlacementKind::Partial, .op = op};
  }
  return made;
}

// Each element has the result's gradient.
Made sum_back(Derivative& d) { return gradient_of(d); }

// What follows is at::native and FunctionsManual.cpp of torch 2.13, seen in the calls of single derivatives.

// grad / self ** (p - 1), filled where the norm is 0
Made scaled_gradient(Derivative& d) {
  const Made scaled = by_elements(d, gradient_of(d), closed(d, result_of(d)), Linearity::Div);
  closed(d, result_of(d));
  return scaled;
}

// 2: grad * (self / norm).masked_fill_(norm == 0, 0); inf: sgn(self) * ((abs(self) == norm) * (grad / how many are)).
// Else sgn(self) * abs(self) ** (p - 1), times grad / norm ** (p - 1).
Made norm_back(Derivative& d) {
  const double p = norm_order(d.c.b.walk, d.c.entry);
  if (p == 2) {
    const Made quotient = by_elements(d, operand_of(d, 0), result_of(d), Linearity::Div);
    closed(d, result_of(d));
    return by_elements(d, gradient_of(d), quotient, Linearity::Mul);
  }
  if (p > 2 && !std::isinf(p)) {
    const Made powers = by_elements(d, operand_of(d, 0), closed(d, operand_of(d, 0)), Linearity::Mul);
    return by_elements(d, powers, scaled_gradient(d), Linearity::Mul);
  }
  const Made sign = closed(d, operand_of(d, 0));
  if (p == 1) return by_elements(d, sign, gradient_of(d), Linearity::Mul);
  closed(d, operand_of(d, 0));
  if (std::isinf(p)) {
    const Made mask = by_elements(d, sign, result_of(d), Linearity::Other);
    const Made share = by_elements(d, gradient_of(d), reduced(d, mask, ReduceOp::Sum), Linearity::Div);
    return by_elements(d, sign, by_elements(d, mask, share, Linearity::Mul), Linearity::Mul);
  }
  if (p > 1) return by_elements(d, sign, scaled_gradient(d), Linearity::Mul);
  closed(d, operand_of(d, 0));
  const Made times = by_elements(d, sign, gradient_of(d), Linearity::Mul);
  return by_elements(d, times, closed(d, result_of(d)), Linearity::Mul);
}

// (2 / (count - correction)) * grad * (self - self.mean(dim, keepdim)), whose mean of uneven pieces is of all
Made spread_back(Derivative& d, const Made& gradient) {
  const Made self = operand_of(d, 0);
  Made whole = self;
  for (size_t axis = 0; axis < whole.at.size(); ++axis) {
    Placement& at = whole.at[axis];
    const auto ranks = static_cast<int64_t>(d.c.b.walk.table.maps.axes[axis]);
    const bool is_uneven =
        is_shard(at) && d.along[static_cast<size_t>(at.dim)] && self.shape[static_cast<size_t>(at.dim)] % ranks != 0;
    if (is_uneven || (at.kind == PlacementKind::Partial && at.op != ReduceOp::Avg)) at = {};
  }
  bring(d, self, whole.at);
  const Made centred = by_elements(d, self, reduced(d, whole, ReduceOp::Avg), Linearity::Add);
  return by_elements(d, gradient, centred, Linearity::Mul);
}

Made var_back(Derivative& d) { return spread_back(d, gradient_of(d)); }

// The same of (grad / (2 * std)).masked_fill_(std == 0, 0)
Made std_back(Derivative& d) {
  const Made divided = by_elements(d, gradient_of(d), result_of(d), Linearity::Div);
  closed(d, result_of(d));
  return spread_back(d, divided);
}

// grad / mask.sum() * mask, where the mask is `result == self`
Made extreme_back(Derivative& d) {
  const Made mask = by_elements(d, result_of(d), operand_of(d, 0), Linearity::Other);
  const Made share = by_elements(d, gradient_of(d), reduced(d, mask, ReduceOp::Sum), Linearity::Div);
  return by_elements(d, share, mask, Linearity::Mul);
}

// -grad * (self / other / other), summed over what `other` is broadcast along
Made divisor_back(Derivative& d) {
  const Made once = by_elements(d, operand_of(d, 0), operand_of(d, 1), Linearity::Div);
  const Made twice = by_elements(d, once, operand_of(d, 1), Linearity::Div);
  Made found = by_elements(d, gradient_of(d), twice, Linearity::Mul);
  found.at = summed_claim(d.c, std::move(found.at));
  return found;
}

bool is_sum(const BackCall& c) { return (c.op == "sum" || c.op == "mean") && c.ins.size() == 1; }
bool is_extreme(const BackCall& c) { return (c.op == "amax" || c.op == "amin") && c.ins.size() == 1; }
bool is_divisor(const BackCall& c) {
  return (c.op == "div" || c.op == "true_divide") && c.ins.size() == 2 && c.target == 1;
}

// The gradient of the number of elements is none.
bool is_norm(const BackCall& c) {
  return (c.op == "norm" || c.op == "linalg_vector_norm") && norm_order(c.b.walk, c.entry) != 0;
}
bool is_var(const BackCall& c) { return c.op == "var"; }
bool is_std(const BackCall& c) { return c.op == "std"; }

struct DerivativeRow {
  bool (*is)(const BackCall&);
  Made (*back)(Derivative&);
};

constexpr DerivativeRow kDerivatives[] = {{is_sum, sum_back},         {is_norm, norm_back}, {is_extreme, extreme_back},
                                          {is_divisor, divisor_back}, {is_var, var_back},   {is_std, std_back}};

const DerivativeRow* row_of(const BackCall& c) {
  const auto* row =
      std::find_if(std::begin(kDerivatives), std::end(kDerivatives), [&c](const DerivativeRow& r) { return r.is(c); });
  return row == std::end(kDerivatives) ? nullptr : row;
}

}  // namespace

double norm_order(Walk& walk, const TapeEntry& entry) {
  OpCall call = call_of(walk, walk.graph.nodes[entry.node]);
  begin_call(call);
  const GraphArg* p = find_arg(call, 1, call.graph.strings[call.node.name] == "norm" ? "p" : "ord");
  return p == nullptr || p->kind == ArgKind::None || p->kind == ArgKind::Text ? 2 : p->number;
}

bool has_derivative(const BackCall& c) { return row_of(c) != nullptr; }

bool derive(BackCall& c, Claim& claim) {
  const DerivativeRow& row = *row_of(c);
  Derivative d = row.is == is_divisor ? Derivative{.c = c} : reduction_of(c);
  claim = row.back(d).at;
  return d.known;
}

}  // namespace tpplan
