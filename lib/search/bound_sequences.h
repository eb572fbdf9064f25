// Lower bounds of what sequences of layers cost, for solve_mesh.
#pragma once

#include <optional>

#include "search/solve_state.h"

namespace tpplan {

// Makes the bounds of sequences that begin as the state says: of the seconds alone, and at the best price of each
// figure. They hold for the ways of the state.
void prepare_bounds(Solving& s);

// What a label can lead to at best, if `left` layers follow.
struct Outlook {
  bool fits = true;
  double seconds = 0;
  int64_t memory = 0;
};

[[nodiscard]] Outlook outlook_of(const Solving& s, const Label& label, ResidualState state, size_t left);

// Leaves out the ways with which no sequence is better than `best`.
void drop_costly(Solving& s, const std::optional<Solution>& best);

}  // namespace tpplan
