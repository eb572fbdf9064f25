// Which rank holds which part of a tensor, as a grid over its dims: one cell for each piece, in global indices.
#pragma once

#include <cstdint>
#include <optional>
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

// "0:1024".
[[nodiscard]] std::string run_text(const GridRun& run);

// Rows and columns of a grid at one run of each other dim: the last two dims that are cut, or else the last ones. None
// runs across a tensor of one dim, none down a scalar.
struct GridSlice {
  std::optional<size_t> down, across;
  std::vector<size_t> at;  // of each dim, into ShardGrid::runs
};
[[nodiscard]] GridSlice first_slice(const ShardGrid& grid);
// Moves to the next runs of the dims that run neither down nor across; false after the last.
[[nodiscard]] bool next_slice(const ShardGrid& grid, GridSlice& slice);
// How many rows or columns.
[[nodiscard]] size_t extent(const ShardGrid& grid, const std::optional<size_t>& dim);
// The piece of each dim.
[[nodiscard]] std::vector<int64_t> pieces_at(const ShardGrid& grid, const GridSlice& slice);
// "Ranks that hold each piece at dim 0 0:4, dim 1 0:16": what it shows, and of which run of the other dims.
[[nodiscard]] std::string caption_text(const ShardGrid& grid, const GridSlice& slice);

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
