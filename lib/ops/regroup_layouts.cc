#include "ops/regroup_layouts.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

namespace tpplan {
namespace {

using Intervals = std::vector<Interval>;

// The arguments of regroup_layouts.
struct Regroup {
  std::span<const DimLayoutId> from;
  std::span<const int64_t> to;
  std::span<const std::vector<int64_t>> local;  // [dim][rank]
};

// Merges dims: computes the flat row-major indices of a rank's elements. Returns false if there are too many intervals.
bool merge_dims(const DimLayoutTable& table, std::span<const DimLayoutId> from, size_t rank, Intervals& intervals) {
  intervals.assign(1, {0, 1});
  for (const DimLayoutId id : from) {
    const DimLayout& map = table.maps[id];
    const Intervals inner = rank_intervals(map, rank);
    Intervals next;
    const bool is_full = inner.size() == 1 && inner[0] == Interval{0, map.size};
    for (const Interval& run : intervals) {
      if (is_full) {
        append_interval(next, {run.begin * map.size, run.end * map.size});
        continue;
      }
      for (int64_t i = run.begin; i < run.end; ++i) {
        for (const Interval& interval : inner)
          append_interval(next, {i * map.size + interval.begin, i * map.size + interval.end});
        if (next.size() > kMaxIntervals) return false;
      }
    }
    intervals.swap(next);
  }
  return true;
}

// A cursor into intervals.
struct RunReader {
  const Intervals& intervals;
  size_t at = 0;
  int64_t offset = 0;  // into runs[at]
};

// Reads the next `count` flat indices as columns of a row of `inner` elements. Returns false if they are in several
// rows.
bool read_row(RunReader& reader, int64_t count, int64_t inner, int64_t& row, Intervals& columns) {
  row = -1;
  for (int64_t left = count; left > 0;) {
    if (reader.at == reader.intervals.size()) return false;
    const int64_t end = reader.intervals[reader.at].end, begin = reader.intervals[reader.at].begin + reader.offset;
    const int64_t n = std::min({left, end - begin, inner - begin % inner});
    if (row < 0) row = begin / inner;
    if (begin / inner != row) return false;
    append_interval(columns, {begin % inner, begin % inner + n});
    left -= n;
    reader.offset += n;
    if (begin + n == end) {
      ++reader.at;
      reader.offset = 0;
    }
  }
  return true;
}

// Splits a flat dim of size outer * inner. The intervals of each rank must be a grid of some outer rows by some inner
// columns, because each of two dims has one list of indices.
bool split_dim(const Intervals& intervals, int64_t inner, int64_t local_outer, int64_t local_inner,
               Intervals& outer_intervals, Intervals& inner_intervals) {
  outer_intervals.clear();
  inner_intervals.clear();
  if (local_outer == 0 || local_inner == 0) return intervals.empty();
  if (local_inner == inner) {
    // Rows are complete: every interval begins and ends at a row border.
    for (const Interval& run : intervals) {
      if (run.begin % inner != 0 || run.end % inner != 0) return false;
      append_interval(outer_intervals, {run.begin / inner, run.end / inner});
    }
    inner_intervals = {{0, inner}};
    return true;
  }
  // Rows are sharded: the intervals come row by row, with the same columns in each.
  RunReader reader{intervals};
  for (int64_t i = 0; i < local_outer; ++i) {
    Intervals columns;
    int64_t row = 0;
    if (!read_row(reader, local_inner, inner, row, columns)) return false;
    if (i == 0) inner_intervals = columns;
    if (columns != inner_intervals || outer_intervals.size() > kMaxIntervals) return false;
    append_interval(outer_intervals, {row, row + 1});
  }
  return reader.at == intervals.size();
}

AxisMask axes_of(const DimLayoutTable& table, std::span<const DimLayoutId> maps) {
  AxisMask axes = 0;
  for (const DimLayoutId id : maps) axes |= table.maps[id].axes;
  return axes;
}

// Regroups dims of which one is constant. It stays so after a merge or split only if the others are replicated or of
// size 1; then only sizes are tracked.
std::optional<std::vector<DimLayoutId>> regroup_repeats(DimLayoutTable& table, const Regroup& r, std::string& fault) {
  const bool has_shard = std::any_of(r.from.begin(), r.from.end(), [&](DimLayoutId id) {
    return table.maps[id].size != 1 && table.maps[id].kind == DimLayoutKind::Sharded;
  });
  if (!has_shard) {
    std::vector<DimLayoutId> maps;
    for (size_t dim = 0; dim < r.to.size(); ++dim)
      maps.push_back(unknown_dim(table, r.to[dim], r.local[dim], axes_of(table, r.from)));
    return maps;
  }
  // A sharded dim before an expanded one (keys repeated for each group of heads): treat the expanded one as replicated.
  if (r.from.size() == 2 && r.to.size() == 1) {
    const DimLayout heads = table.maps[r.from[0]], repeats = table.maps[r.from[1]];
    const bool are_replicated =
        std::all_of(repeats.local.begin(), repeats.local.end(), [&](int64_t held) { return held == repeats.size; });
    if (repeats.kind == DimLayoutKind::Any && are_replicated) {
      RankIntervals intervals(table.ranks);
      for (size_t rank = 0; rank < table.ranks; ++rank) {
        for (const Interval& run : rank_intervals(heads, rank))
          append_interval(intervals[rank], {run.begin * repeats.size, run.end * repeats.size});
      }
      return std::vector<DimLayoutId>{layout_of_intervals(table, r.to[0], std::move(intervals))};
    }
  }
  fault = "the merged dims combine shards of one with repeated elements of another";
  return std::nullopt;
}

// Computes the intervals of one rank along each new dim, into out[dim][rank]. All dims are merged into one, from whose
// front the new ones are split off.
bool regroup_rank(const DimLayoutTable& table, const Regroup& r, size_t rank, std::vector<RankIntervals>& out,
                  std::string& fault) {
  Intervals rest, outer, inner;
  if (!merge_dims(table, r.from, rank, rest)) {
    fault = "its shards have too many intervals to track";
    return false;
  }
  int64_t rest_local = 1, rest_size = 1;
  for (size_t dim = 0; dim < r.to.size(); ++dim) {
    rest_local *= r.local[dim][rank];
    rest_size *= r.to[dim];
  }
  for (size_t dim = 0; dim + 1 < r.to.size(); ++dim) {
    const int64_t size = r.to[dim], held = r.local[dim][rank];
    rest_size = size == 0 ? 0 : rest_size / size;
    rest_local = held == 0 ? 0 : rest_local / held;
    if (!split_dim(rest, std::max<int64_t>(1, rest_size), held, rest_local, outer, inner)) {
      fault = fmt::format("the shard of rank {} in {} is not a box of {} by {}", rank,
                          dim_layout_text(table, r.from.back()), size, rest_size);
      return false;
    }
    out[dim][rank] = outer;
    rest = inner;
  }
  out.back()[rank] = rest;
  return true;
}

// Returns the layout of a new dim whose intervals have other sizes than requested. An empty shard has no information
// about the other dims, which are then as on the ranks that have elements.
DimLayoutId layout_of_requested_sizes(DimLayoutTable& table, const Regroup& r, size_t dim, DimLayoutId found) {
  const std::vector<int64_t>& requested = r.local[dim];
  if (table.maps[found].local == requested) return found;
  const DimLayout map = table.maps[found];
  bool is_replicated_elsewhere = true;
  for (size_t rank = 0; rank < table.ranks; ++rank)
    is_replicated_elsewhere = is_replicated_elsewhere && requested[rank] == r.to[dim] &&
                              (map.local[rank] == r.to[dim] || map.local[rank] == 0);
  return is_replicated_elsewhere ? replicated_dim(table, r.to[dim])
                                 : unknown_dim(table, r.to[dim], requested, axes_of(table, r.from));
}

// True if every rank has all elements and requests the traced sizes.
bool is_as_traced(const DimLayoutTable& table, const Regroup& r) {
  if (!std::all_of(r.from.begin(), r.from.end(), [&](DimLayoutId id) { return is_fully_replicated(table, id); }))
    return false;
  for (size_t dim = 0; dim < r.to.size(); ++dim) {
    for (const int64_t size : r.local[dim]) {
      if (size != r.to[dim]) return false;
    }
  }
  return true;
}

}  // namespace

std::optional<std::vector<DimLayoutId>> regroup_layouts(DimLayoutTable& table, std::span<const DimLayoutId> from,
                                                        std::span<const int64_t> to,
                                                        std::span<const std::vector<int64_t>> local,
                                                        std::string& fault) {
  if (from.size() == 1 && to.size() == 1) return std::vector<DimLayoutId>{from[0]};
  const Regroup r{from, to, local};
  std::vector<DimLayoutId> maps;
  if (is_as_traced(table, r)) {
    for (const int64_t size : to) maps.push_back(replicated_dim(table, size));
    return maps;
  }
  if (std::any_of(from.begin(), from.end(), [&](DimLayoutId id) { return table.maps[id].kind == DimLayoutKind::Any; }))
    return regroup_repeats(table, r, fault);
  std::vector<RankIntervals> intervals(to.size(), RankIntervals(table.ranks));
  for (size_t rank = 0; rank < table.ranks; ++rank) {
    if (!regroup_rank(table, r, rank, intervals, fault)) return std::nullopt;
  }
  for (size_t dim = 0; dim < to.size(); ++dim)
    maps.push_back(
        layout_of_requested_sizes(table, r, dim, layout_of_intervals(table, to[dim], std::move(intervals[dim]))));
  return maps;
}

}  // namespace tpplan
