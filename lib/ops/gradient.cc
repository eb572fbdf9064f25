#include "ops/gradient.h"

namespace tpplan {

GradState gradient_through(const ValueLayoutTable& table, GradState state, const ValueLayout& x, const ValueLayout& y,
                           bool& made_partial) {
  made_partial = false;
  if (state.kind != GradKind::Known) return state;
  const AxisMask x_sharded = sharding_axes(table, x), y_sharded = sharding_axes(table, y),
                 y_sharded_or_partial = y_sharded | y.partial;
  const AxisMask passes = x.partial & ~y_sharded, terms = y_sharded_or_partial & ~passes & ~x_sharded;
  if ((state.partial & ~passes & (y_sharded_or_partial | x_sharded)) != 0) return kWrongGrad;
  made_partial = terms != 0;
  return {GradKind::Known, state.partial | terms};
}

}  // namespace tpplan
