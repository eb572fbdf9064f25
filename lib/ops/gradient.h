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

// The state of the gradient of operand `x` of an operation whose result `y` has a gradient of `state`. Along each axis:
//
//   y            x            x's gradient
//   whole        whole        as y's: every rank computed the same
//   cut          cut          as y's: a rank's piece of x went into its own piece of y alone
//   cut, open    whole        a term of a sum: x went into every rank's piece (term), and a rank saw its own
//   whole, open  open         as y's: d(sum of terms)/d(term) is 1, so that each term has the gradient of the sum
//   open         cut          as y's: a rank's piece went into its own term
//
// (In JAX's shard_map the same are the transposes of psum and pbroadcast.) A gradient that is a term already has no
// place at a cut, nor behind a y that is open where x is not. `opened`: it became a term here.
[[nodiscard]] GradState gradient_through(const SpreadTable& table, GradState state, const Spread& x, const Spread& y,
                                         bool& opened);

}  // namespace tpplan
