#include "ops/gradient.h"

namespace tpplan {

GradState gradient_through(const SpreadTable& table, GradState state, const Spread& x, const Spread& y, bool& opened) {
  opened = false;
  if (state.kind != GradKind::Known) return state;
  const AxisMask x_cut = cut_axes(table, x), y_pieces = cut_axes(table, y), y_cut = y_pieces | y.partial;
  const AxisMask passes = x.partial & ~y_pieces, terms = y_cut & ~passes & ~x_cut;
  if ((state.open & ~passes & (y_cut | x_cut)) != 0) return kWrongGrad;
  opened = terms != 0;
  return {GradKind::Known, state.open | terms};
}

}  // namespace tpplan
