#include "ops/gradient.h"

namespace tpplan {

GradState gradient_through(const ValueLayoutTable& table, GradState state, const ValueLayout& x, const ValueLayout& y,
                           bool& made_partial) {
  made_partial = false;
  if (state.kind != GradKind::Known) return state;
  const AxisMask x_cut = sharding_axes(table, x), y_pieces = sharding_axes(table, y), y_cut = y_pieces | y.partial;
  const AxisMask passes = x.partial & ~y_pieces, terms = y_cut & ~passes & ~x_cut;
  if ((state.open & ~passes & (y_cut | x_cut)) != 0) return kWrongGrad;
  made_partial = terms != 0;
  return {GradKind::Known, state.open | terms};
}

}  // namespace tpplan
