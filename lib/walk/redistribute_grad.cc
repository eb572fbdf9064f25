#include "walk/redistribute_grad.h"

#include <spdlog/fmt/fmt.h>

#include "walk/record_call.h"
#include "walk/slots.h"

namespace tpplan {

void record_grad_call(Backward& b, const TapeEntry& entry, const Collective& call, const Spread& layout, SlotId slot,
                      bool hidden) {
  std::vector<int64_t> shape = local_shape(b.walk.table, layout, 0);
  pad_pieces(shape, call, static_cast<int64_t>(b.walk.table.maps.axes[call.axis]));
  record_call(b.walk, true, call.kind, call.axis, entry.module, std::move(shape),
              entry.dtype.empty() ? dtype_of(b.walk, slot) : entry.dtype, hidden);
}

Grad close_sum(Backward& b, const TapeEntry& entry, Grad grad, size_t axis) {
  const AxisMask bit = axis_bit(axis);
  if (grad.state == kWrongGrad) return grad;
  AxisMask open = 0, closed = 0;
  each_state(grad, [&](GradState& state) {
    if (state.kind != GradKind::Known) return;
    open |= state.open & bit;
    closed |= ~state.open & bit;
    state.open &= ~bit;
  });
  if (open != 0 && closed != 0)
    return wrong_grad(b, entry, Code::TP5112,
                      "the gradient is complete in one part and a term of an open sum in another, and all of it is "
                      "summed",
                      grad.rule);
  if (closed != 0)
    return wrong_grad(b, entry, Code::TP5112,
                      fmt::format("the gradient is complete on every rank, and is summed over {} ranks",
                                  b.walk.table.maps.axes[axis]),
                      grad.rule);
  simplify(grad);
  return grad;
}

namespace {

// What lies on ranks on the way: pieces where the claim says so and the value itself is none, and a term as large as
// the whole where it is a piece.
Spread claimed_pieces(Walk& walk, SpreadId layout, const Claim& claim) {
  MapTable& maps = walk.table.maps;
  Spread piece = walk.table.layouts[layout];
  for (size_t axis = 0; axis < claim.size(); ++axis) {
    if (!is_shard(claim[axis])) {
      for (MapId& map : piece.dims) {
        if (maps.maps[map].axes == axis_bit(axis)) map = whole_map(maps, maps.maps[map].size);
      }
      continue;
    }
    const auto dim = static_cast<size_t>(claim[axis].dim);
    if (dim < piece.dims.size() && (maps.maps[piece.dims[dim]].axes & axis_bit(axis)) == 0)
      piece.dims[dim] = cut_map(maps, piece.dims[dim], axis);
  }
  return piece;
}

bool is_open_along(const Grad& grad, size_t axis) {
  AxisMask open = grad.state.open;
  for (const GradSegment& s : grad.segments) open |= s.state.open;
  return (open & axis_bit(axis)) != 0;
}

}  // namespace

Grad redistribute_claim(Backward& b, const TapeEntry& entry, Grad grad, const Claim& to, SlotId slot, bool hidden) {
  const Claim from = grad.claim;
  grad.claim = to;
  if (from == to) return grad;
  const SpreadId layout = grad.layout;
  Claim current = from;
  const auto steps = redistribute(from, to);
  for (const Collective& step : steps.value_or(std::vector<Collective>{})) {
    if (step.kind != CollectiveKind::LocalSlice)
      record_grad_call(b, entry, step, claimed_pieces(b.walk, layout, current), slot, hidden);
    if (current[step.axis].kind == PlacementKind::Partial)
      grad = close_sum(b, entry, std::move(grad), step.axis);
    else if (grad.state != kWrongGrad && is_open_along(grad, step.axis))
      grad =
          wrong_grad(b, entry, Code::TP5111,
                     "the gradient is a term of an open sum, and is cut or gathered as if it were complete", grad.rule);
    grad.layout = layout;
    current[step.axis] = placement_after(step, to);
  }
  grad.claim = to;
  return grad;
}

namespace {

// Operations whose result is cut as their operand is, and whose gradient is summed piece by piece, where it is wanted:
// by elements because it is cheaper, norms because their strategy is the operand's (_ops/_math_ops.py).
bool goes_back_by_piece(std::string_view op) {
  Linearity ignored{};
  return op == "layer_norm" || op == "rms_norm" || find_pointwise(op, ignored);
}

}  // namespace

void close_before(Backward& b, const TapeEntry& entry, const TapeSlot& result, SpreadId held) {
  Grad& grad = b.grads[result.slot];
  const Spread& y = b.walk.table.layouts[result.layout];
  if (!grad.has_claim || !y.is_dtensor) return;
  AxisMask pieces = y.partial;
  for (uint32_t in = entry.in_begin; in < entry.in_end; ++in)
    pieces |= cut_axes(b.walk.table, b.walk.table.layouts[b.walk.tape_slots[in].layout]);
  const bool keeps_cut =
      entry.kind == TapeKind::Op && goes_back_by_piece(b.walk.graph.strings[b.walk.graph.nodes[entry.node].name]);
  Claim closed = grad.claim;
  for (size_t axis = 0; axis < closed.size(); ++axis) {
    if (closed[axis].kind != PlacementKind::Partial || (pieces & axis_bit(axis)) == 0) continue;
    closed[axis] = keeps_cut && is_shard(y.claim[axis]) ? y.claim[axis] : Placement{};
  }
  if (closed == grad.claim) return;
  grad.layout = held;
  grad = redistribute_claim(b, entry, std::move(grad), closed, result.slot, true);
  grad.has_claim = true;
}

}  // namespace tpplan
