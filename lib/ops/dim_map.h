// Which elements of a tensor's dim the ranks of some mesh axes hold, told by the indices of the whole (recorded)
// tensor: for every rank a list of runs in the order in which they stand in its memory. No kind of cut is special: a
// chunk, an uneven or empty one, the strided pieces of a fused weight and what was put in another order are all such
// lists, and an operation is right where the lists that meet in it are equal. Interned: equal maps have one id, and
// that question is a comparison of two numbers. Never an entry an element; a dim of 8192 on 8 ranks is 8 runs.
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

using MapId = uint32_t;
// Some of the axes that a table is of, as bits.
using AxisMask = uint32_t;
inline constexpr AxisMask kAllAxes = ~AxisMask{0};

// Whole: every rank holds all of it in order. Cut: anything else that is known. Any: the values do not change along the
// dim, or are not known, so that only the sizes count.
enum class MapKind : uint8_t { Whole, Cut, Any };

using RankRuns = std::vector<std::vector<Interval>>;  // by rank

struct DimMap {
  MapKind kind = MapKind::Whole;
  int64_t size = 0;            // of the whole dim
  std::vector<int64_t> local;  // by rank: how many elements it holds
  RankRuns runs;               // of Cut
  AxisMask axes = 0;           // of a piece: the axes along which ranks hold different ones
  bool is_complete = false;    // every rank holds every element once, in some order, and all the same
  bool tiles = false;          // together the ranks along `axes` hold every element once
};

struct MapTable {
  std::vector<size_t> axes{1};  // their sizes, major to minor: a rank is the row-major index of its coordinate
  size_t ranks = 1;             // their product
  std::deque<DimMap> maps;      // what points at one stays right while others are added
  TextMap<std::string, MapId> index;
  // What was asked for before: whole dims by their size, and cuts by what was cut, the axis and the factor.
  std::map<int64_t, MapId> wholes;
  std::map<std::tuple<MapId, size_t, int64_t>, MapId> cuts;
};

// More runs than this on one rank are not followed: a layout as fine as that is no layout that a plan makes.
inline constexpr size_t kMaxRuns = 4096;

void set_axes(MapTable& table, std::vector<size_t> axes);
// Its index along one of the axes.
[[nodiscard]] size_t coordinate(const MapTable& table, size_t rank, size_t axis);

[[nodiscard]] MapId whole_map(MapTable& table, int64_t size);
// What each rank holds, cut by one axis as torch.chunk does; `factor` > 1: each of that many equal segments by itself.
[[nodiscard]] MapId cut_map(MapTable& table, MapId map, size_t axis, int64_t factor = 1);
// `axes`: those that sizes other than the whole's come from, where they are known.
[[nodiscard]] MapId any_map(MapTable& table, int64_t size, std::vector<int64_t> local, AxisMask axes = kAllAxes);
// Adjacent runs become one. What turns out to be the whole in order is whole_map.
[[nodiscard]] MapId runs_map(MapTable& table, int64_t size, RankRuns runs);

[[nodiscard]] inline bool is_whole(const MapTable& table, MapId map) { return table.maps[map].kind == MapKind::Whole; }
[[nodiscard]] inline bool is_cut(const MapTable& table, MapId map) { return table.maps[map].kind != MapKind::Whole; }
// True when the ranks hold different numbers of elements than the whole dim has: what happens to it counts as
// piecewise.
[[nodiscard]] bool is_piece(const MapTable& table, MapId map);
[[nodiscard]] bool same_sizes(const MapTable& table, MapId a, MapId b);

// Runs of a rank, of a Whole map too. Any has none.
[[nodiscard]] std::vector<Interval> runs_of(const DimMap& map, size_t rank);
// Adds a run behind others; adjacent ones become one.
void append_run(std::vector<Interval>& runs, Interval run);

// What ranks hold after the pieces of those along one axis were gathered in their order, as all_gather puts them.
// `is_right`: they were pieces along this axis that make up the whole; only their sizes are known else.
[[nodiscard]] MapId gathered_map(MapTable& table, MapId map, size_t axis, bool& is_right);

// "0..63 | 64..127", at most four ranks.
[[nodiscard]] std::string map_text(const MapTable& table, MapId map);

}  // namespace tpplan
