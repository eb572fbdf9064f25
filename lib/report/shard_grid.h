// Which rank holds which part of a tensor, as a grid over its dims: one cell for each piece, in global indices.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "manifest/manifest.h"
#include "measure/measure_manifest.h"
#include "sharding/shard_slice.h"

namespace tpplan {

// A run of global indices of one dim and who holds it: the coordinate on the axes that cut the dim, as one number,
// major axis first. A dim of several segments has several runs of one piece.
struct GridRun {
  Interval interval;
  int64_t piece = 0;
};

// The runs of each dim, by their begin, without empty ones. A cell is one run of each dim; the cells of a complete grid
// hold every element exactly once.
struct ShardGrid {
  std::vector<std::vector<GridRun>> runs;
  uint64_t cell_count = 0;  // saturates at 2^64 - 1
  bool complete =
      true;  // false: a dim has more than `most_pieces` pieces, or kMaxGridRuns runs; the others are left out
};
inline constexpr size_t kMaxGridRuns = 65536;
[[nodiscard]] ShardGrid make_shard_grid(const ParamLayout& layout, const Mesh& mesh, int64_t most_pieces);

// The first of the ranks that hold a cell, ascending, and how many there are.
struct CellRanks {
  std::vector<RankRun> ranks;
  int64_t listed = 0;
  int64_t count = 0;
};

// `pieces` has the piece of each dim.
[[nodiscard]] CellRanks ranks_of_cell(const ParamLayout& layout, const Mesh& mesh, std::span<const int64_t> pieces,
                                      int64_t most);

// The ranks that hold no element of the tensor though it has some.
[[nodiscard]] CellRanks empty_ranks(const ParamLayout& layout, const Mesh& mesh, int64_t most);

}  // namespace tpplan
