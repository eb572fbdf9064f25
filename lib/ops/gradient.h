// The state of a value's gradient on the ranks, and its propagation from the result of an operation to its operands.
#pragma once

#include <cstdint>

#include "ops/value_layout.h"

namespace tpplan {

enum class GradKind : uint8_t { None, Known, Wrong };

// Complete: right for the local elements. Otherwise partial over the axes in `partial`.
struct GradState {
  GradKind kind = GradKind::None;
  AxisMask partial = 0;
  bool operator==(const GradState&) const = default;
};

inline constexpr GradState kNoGrad{}, kComplete{GradKind::Known, 0}, kWrongGrad{GradKind::Wrong, 0};

// Returns the state of the gradient of operand `x` of an operation whose result `y` has a gradient of `state`. Along
// each axis:
//
//   y                    x            gradient of x
//   replicated           replicated   as y's: every rank computed the same
//   sharded              sharded      as y's: a shard of x contributes to the same rank's shard of y only
//   sharded, partial     replicated   partial: x contributes to every rank's shard, and a rank sees its own only
//   replicated, partial  partial      as y's: d(sum)/d(partial value) is 1, so each has the gradient of the sum
//   partial              sharded      as y's: a shard of x contributes to the same rank's partial value only
//
// (In JAX's shard_map these are the transposes of psum and pbroadcast.) A partial gradient is an error at a sharded
// operand, and at a y that is partial if x is not. `made_partial`: the gradient became partial here.
[[nodiscard]] GradState gradient_through(const ValueLayoutTable& table, GradState state, const ValueLayout& x,
                                         const ValueLayout& y, bool& made_partial);

}  // namespace tpplan
