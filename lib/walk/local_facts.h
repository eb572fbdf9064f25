// What is known of a value besides its layout, where every rank runs the program by itself (walk/shard_map_run.cc):
// code there computes with its place in the mesh, and takes a maximum or a mean in two steps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/op_graph.h"
#include "ops/spread.h"
#include "walk/rank_functions.h"

namespace tpplan {

// Table: integers and truths, each a function of an integer of the whole model, on every rank its own.
// Rows: what a rank finds at such an index: by rank 0 where it has zeros, 1 what the whole model finds there, 2
// something else.
enum class FactKind : uint8_t { None, Table, Rows };

struct LocalFact {
  FactKind kind = FactKind::None;
  ValueId base = kNoId;  // the integers of the whole model; kNoId: all functions are constant
  std::vector<RankFunction> by_rank;
  RankFunction whole;                      // what the whole model computes of it
  int counts_along = -1;                   // the dim along which elements are 0, 1, 2.. of the whole
  int64_t numerator = 1, denominator = 1;  // ranks hold so many times what belongs there
  std::string scaled_by;
  AxisMask open_maximum = 0;  // the value is the maximum (minimum) of what the ranks along these axes hold
  bool is_minimum = false;
};

}  // namespace tpplan
