#include "sharding/rank_offsets.h"

#include <algorithm>
#include <numeric>

namespace tpplan {
namespace {

// Shards of different lengths are compared one by one; readers reject manifests with more shards than this.
constexpr int64_t kMostUnequal = int64_t{1} << 16;

// Returns the mesh coordinate of shard `piece` of a dim.
std::vector<int64_t> coordinate_of_shard(const DimAxes& axes, const Mesh& mesh, int64_t piece) {
  std::vector<int64_t> coordinate(mesh.axes.size());
  for (size_t i = axes.size(); i-- > 0;) {
    coordinate[axes[i]] = piece % mesh.axes[axes[i]].size;
    piece /= mesh.axes[axes[i]].size;
  }
  return coordinate;
}

std::vector<RankLevel> levels_of(const DimAxes& axes, const Mesh& mesh) {
  std::vector<RankLevel> levels;
  for (size_t i = 0; i < axes.size(); ++i) {
    std::vector<int64_t> unit(mesh.axes.size());
    unit[axes[i]] = 1;
    int64_t pieces = 1;
    for (size_t k = i + 1; k < axes.size(); ++k) pieces *= mesh.axes[axes[k]].size;
    levels.push_back({rank_of(mesh, unit), mesh.axes[axes[i]].size, pieces});
  }
  return levels;
}

// Returns shards that determine all others if all have one length: the first, the last, the second along each axis.
std::vector<int64_t> distinct_shards(const DimOffsets& offsets, int64_t count) {
  std::vector<int64_t> pieces{0, count - 1};
  for (const RankLevel& level : offsets.ranks) {
    if (level.count > 1) pieces.push_back(level.pieces);
  }
  return pieces;
}

// Returns the segments of a dim; one interval over the dim if it is not fused.
std::vector<Interval> intervals_of(std::span<const int64_t> segments, int64_t size) {
  if (segments.empty()) return {{0, size}};
  std::vector<Interval> intervals;
  int64_t begin = 0;
  for (const int64_t segment : segments) {
    intervals.push_back({begin, begin + segment});
    begin += segment;
  }
  return intervals;
}

// Appends the next shard of a segment with unequal shards; `end` is the end of the shard before. False if they are not
// consecutive.
bool add_shard(const Interval& found, std::vector<EqualShards>& runs, int64_t& end) {
  if (length(found) < 0 || (length(found) > 0 && found.begin != end)) return false;
  end += length(found);
  if (runs.empty() || runs.back().length != length(found)) runs.push_back({0, length(found)});
  ++runs.back().count;
  return true;
}

// Finds the shards of one dim, whose rank levels are known. Returns false if DimOffsets cannot represent them.
bool find_equal_shards(DimOffsets& offsets, const std::vector<Interval>& segments, int64_t count,
                       const auto& slice_of_shard) {
  const auto is_equal = [count](const Interval& segment) { return length(segment) % count == 0; };
  const bool all_equal = std::ranges::all_of(segments, is_equal);
  if (!all_equal && count > kMostUnequal) return false;
  std::vector<int64_t> asked = distinct_shards(offsets, count);
  if (!all_equal) {
    asked.resize(static_cast<size_t>(count));
    std::iota(asked.begin(), asked.end(), 0);
  }
  std::vector<int64_t> ends;
  for (const Interval& segment : segments) {
    std::vector<EqualShards>& runs = offsets.runs.emplace_back();
    if (is_equal(segment)) runs.push_back({count, length(segment) / count});
    ends.push_back(segment.begin);
  }
  for (const int64_t piece : asked) {
    const std::vector<Interval> found = slice_of_shard(piece);
    for (size_t s = 0; s < segments.size(); ++s) {
      const Interval own = s < found.size() ? found[s] : Interval{-1, -1};
      if (is_equal(segments[s])) {
        const int64_t size = length(segments[s]) / count, begin = segments[s].begin + piece * size;
        if (own != Interval{begin, begin + size}) return false;
      } else if (!add_shard(own, offsets.runs[s], ends[s])) {
        return false;
      }
    }
  }
  for (size_t s = 0; s < segments.size(); ++s) {
    if (!is_equal(segments[s]) && ends[s] != segments[s].end) return false;
  }
  return true;
}

}  // namespace

std::optional<std::vector<DimOffsets>> offsets_of(std::span<const int64_t> shape, const Sharding& sharding,
                                                  const Mesh& mesh, SliceFunction slice) {
  std::vector<DimOffsets> offsets;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    const DimAxes& axes = sharding.spec[dim];
    if (axes.empty()) continue;
    DimOffsets& of_dim = offsets.emplace_back();
    of_dim.dim = dim;
    of_dim.ranks = levels_of(axes, mesh);
    const bool said = find_equal_shards(of_dim, intervals_of(segments_of(sharding, dim), shape[dim]),
                                        shard_count(axes, mesh), [&](int64_t piece) {
                                          const auto coordinate = coordinate_of_shard(axes, mesh, piece);
                                          return std::move(slice(shape, sharding, mesh, coordinate)[dim]);
                                        });
    if (!said) return std::nullopt;
  }
  return offsets;
}

std::vector<Interval> rank_intervals(const DimOffsets& offsets, int64_t rank) {
  int64_t piece = 0;
  for (const RankLevel& level : offsets.ranks) piece += rank / level.stride % level.count * level.pieces;
  std::vector<Interval> held;
  int64_t begin = 0;  // of the segment
  for (const std::vector<EqualShards>& runs : offsets.runs) {
    int64_t at = begin, left = piece;
    size_t own = 0;  // the interval that contains the shard
    while (own < runs.size() && left >= runs[own].count) {
      at += runs[own].count * runs[own].length;
      left -= runs[own++].count;
    }
    if (own < runs.size()) held.push_back({at + left * runs[own].length, at + (left + 1) * runs[own].length});
    for (const EqualShards& run : runs) begin += run.count * run.length;
  }
  return held;
}

}  // namespace tpplan
