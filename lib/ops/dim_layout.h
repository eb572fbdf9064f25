// The layout of one dim: which global indices of the traced tensor each rank holds, as a list of intervals in memory
// order. No kind of sharding is special: even, uneven and empty chunks, the strided shards of a fused weight and
// permuted elements are all such lists, and an operation is right if the layouts of its operands are equal. Layouts are
// interned: equal ones have one id, so that this is a comparison of two ids. A dim of 8192 on 8 ranks is 8 intervals.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "base/keyed_hash.h"
#include "sharding/shard_slice.h"

namespace tpplan {

using DimLayoutId = uint32_t;
// A subset of the axes of a table, as bits.
using AxisMask = uint32_t;
inline constexpr AxisMask kAllAxes = ~AxisMask{0};

// Whole: every rank holds all indices in order. Cut: any other known layout. Any: the values are constant along the dim
// or unknown, so that only the local sizes matter.
enum class DimLayoutKind : uint8_t { Replicated, Sharded, Any };

using RankIntervals = std::vector<std::vector<Interval>>;  // by rank

struct DimLayout {
  DimLayoutKind kind = DimLayoutKind::Replicated;
  int64_t size = 0;            // global
  std::vector<int64_t> local;  // local size by rank
  RankIntervals intervals;     // of Cut
  AxisMask axes = 0;           // the axes along which ranks hold different indices
  bool is_complete = false;    // every rank holds every index once, in the same order on all ranks
  bool tiles = false;          // the ranks along `axes` together hold every index once
};

struct DimLayoutTable {
  std::vector<size_t> axes{1};  // their sizes, major to minor: a rank is the row-major index of its coordinate
  size_t ranks = 1;             // their product
  std::deque<DimLayout> maps;   // a deque: pointers stay valid when layouts are added
  TextMap<std::string, DimLayoutId> index;
  // Caches: replicated dims by size; shardings by the layout that is sharded, the axis and the factor.
  std::map<int64_t, DimLayoutId> wholes;
  std::map<std::tuple<DimLayoutId, size_t, int64_t>, DimLayoutId> shardings;
};

// Layouts with more intervals on one rank are not tracked: no plan makes one.
inline constexpr size_t kMaxIntervals = 4096;

void reset_for_axes(DimLayoutTable& table, std::vector<size_t> axes);
// Returns the index of a rank along one of the axes.
[[nodiscard]] size_t coordinate(const DimLayoutTable& table, size_t rank, size_t axis);

[[nodiscard]] DimLayoutId replicated_dim(DimLayoutTable& table, int64_t size);
// Shards a layout over one axis as torch.chunk does; with `factor` > 1 each of that many equal segments separately.
[[nodiscard]] DimLayoutId sharded_dim(DimLayoutTable& table, DimLayoutId map, size_t axis, int64_t factor = 1);
// Returns a layout of kind Any. `axes`: the axes along which the local sizes differ, if they are known.
[[nodiscard]] DimLayoutId unknown_dim(DimLayoutTable& table, int64_t size, std::vector<int64_t> local,
                                      AxisMask axes = kAllAxes);
// Returns the layout with these intervals, adjacent ones joined; replicated_dim if they cover the dim in order.
[[nodiscard]] DimLayoutId layout_of_intervals(DimLayoutTable& table, int64_t size, RankIntervals intervals);

[[nodiscard]] inline bool is_fully_replicated(const DimLayoutTable& table, DimLayoutId map) {
  return table.maps[map].kind == DimLayoutKind::Replicated;
}
[[nodiscard]] inline bool is_sharded_dim(const DimLayoutTable& table, DimLayoutId map) {
  return table.maps[map].kind != DimLayoutKind::Replicated;
}
// True if a rank's local size differs from the global one.
[[nodiscard]] bool differs_from_global(const DimLayoutTable& table, DimLayoutId map);
[[nodiscard]] bool same_sizes(const DimLayoutTable& table, DimLayoutId a, DimLayoutId b);

// Returns the intervals of a rank, also for Whole; empty for Any.
[[nodiscard]] std::vector<Interval> rank_intervals(const DimLayout& map, size_t rank);
// Appends an interval; joins it with the last one if they are adjacent.
void append_interval(std::vector<Interval>& intervals, Interval run);

// Returns the layout after an all_gather over one axis, which concatenates the shards in rank order. `is_right`: they
// were shards along this axis that make up the dim; if not, only the sizes of the result are known.
[[nodiscard]] DimLayoutId gathered_dim(DimLayoutTable& table, DimLayoutId map, size_t axis, bool& is_right);

// "0..63 | 64..127", at most four ranks.
[[nodiscard]] std::string dim_layout_text(const DimLayoutTable& table, DimLayoutId map);

}  // namespace tpplan
