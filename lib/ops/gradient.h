// What every rank has of a value's gradient, and how an operation's layouts carry it from its result to its operands.
#pragma once

#include <cstdint>

#include "ops/spread.h"

namespace tpplan {

enum class GradKind : uint8_t { None, Known, Wrong };

// Complete: right for the elements that the rank holds. Or a term of a sum over the ranks along `open`.
struct GradState {
  GradKind kind = GradKind::None;
  AxisMask open = 0;
  bool operator==(const GradState&) const = default;
};

inline constexpr GradState kNoGrad{}, kComplete{GradKind::Known, 0}, kWrongGrad{GradKind::Wrong, 0};

// The state of the gradient of operand `x` of an operation whose result `y` has a gradient of `state`: what the operand
// is an open sum over passes; where the result is cut or open, a whole operand gets a term, and what is open already
// has no place. `opened`: it became a term here.
[[nodiscard]] GradState gradient_through(const SpreadTable& table, GradState state, const Spread& x, const Spread& y,
                                         bool& opened);

}  // namespace tpplan
