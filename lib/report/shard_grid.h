// The sharding of a tensor as a grid over its dims, in global indices: each tile belongs to one shard.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cost/measure_manifest.h"
#include "manifest/manifest.h"
#include "sharding/shard_slice.h"

namespace tpplan {

// An interval of global indices of one dim, with the index of its shard. The shard index linearizes the coordinates on
// the axes that shard the dim, major axis first. If the dim has segments, a shard has several intervals.
struct GridInterval {
  Interval interval;
  int64_t shard = 0;
};

// The non-empty intervals of each dim, sorted by their begin. A tile is one interval of each dim. The tiles of a
// complete grid contain every element exactly once.
struct ShardGrid {
  std::vector<std::vector<GridInterval>> intervals;
  uint64_t cell_count = 0;  // saturates at 2^64 - 1
  bool complete =
      true;  // false: a dim has more than `max_shards` shards or kMaxGridIntervals intervals, and the rest is omitted
};
inline constexpr size_t kMaxGridIntervals = 65536;
[[nodiscard]] ShardGrid make_shard_grid(const ParamLayout& layout, const Mesh& mesh, int64_t max_shards);

// Returns the interval as text: "0:1024".
[[nodiscard]] std::string interval_text(const GridInterval& run);

// A table of the grid: the dims of its rows and columns, and one interval of each other dim. first_slice chooses the
// last two sharded dims, then unsharded ones. `across` is empty for a tensor of one dim, `down` also for a scalar.
struct GridSlice {
  std::optional<size_t> down, across;
  std::vector<size_t> at;  // the interval of each dim, an index into ShardGrid::runs
};
[[nodiscard]] GridSlice first_slice(const ShardGrid& grid);
// Advances to the next intervals of the other dims. Returns false after the last.
[[nodiscard]] bool next_slice(const ShardGrid& grid, GridSlice& slice);
// Returns the number of rows or columns.
[[nodiscard]] size_t table_extent(const ShardGrid& grid, const std::optional<size_t>& dim);
// Returns the shard index of each dim at the current tile.
[[nodiscard]] std::vector<int64_t> shards_at(const ShardGrid& grid, const GridSlice& slice);
// Returns the caption of a table, with the intervals of the other dims: "Ranks that hold each piece at dim 0 0:4, dim 1
// 0:16".
[[nodiscard]] std::string caption_text(const ShardGrid& grid, const GridSlice& slice);

// The first ranks that hold a tile, in ascending order, and their total number.
struct CellRanks {
  std::vector<RankRange> ranks;
  int64_t listed = 0;
  int64_t count = 0;
};

// Returns the ranks of a tile and lists at most `most`. `shards` has the shard index of each dim.
[[nodiscard]] CellRanks ranks_of_cell(const ParamLayout& layout, const Mesh& mesh, std::span<const int64_t> shards,
                                      int64_t most);

// Returns the ranks that hold no element of a non-empty tensor.
[[nodiscard]] CellRanks empty_ranks(const ParamLayout& layout, const Mesh& mesh, int64_t most);

}  // namespace tpplan
