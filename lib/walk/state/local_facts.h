// Facts about a value besides its layout in per-rank programs (walk/local/shard_map_run.cc). Such a program computes
// with its rank's mesh coordinates, and computes a maximum or a mean in two steps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/op_graph.h"
#include "ops/value_layout.h"
#include "walk/state/rank_functions.h"

namespace tpplan {

// Integers: integers or booleans. Each rank's element is a function of a global integer, which can differ by rank.
// Rows: the element that a rank reads at such an index. `by_rank` is 0 if it reads zeros, 1 if it reads the same
// element as the global program, 2 if it reads another one.
enum class FactKind : uint8_t { None, Integers, Rows };

struct LocalFact {
  FactKind kind = FactKind::None;
  ValueId base = kNoId;  // the global integers; kNoId: all functions are constant
  std::vector<RankFunction> by_rank;
  RankFunction global;                     // the function in the global program
  int counts_along = -1;                   // the dim along which elements equal their global index
  int64_t numerator = 1, denominator = 1;  // the local values are this multiple of the correct ones
  std::string scaled_by;
  AxisMask pending_maximum = 0;  // pending maximum (minimum) reduction along these axes
  bool is_minimum = false;
};

}  // namespace tpplan
