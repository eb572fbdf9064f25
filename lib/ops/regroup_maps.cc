#include "ops/regroup_maps.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

namespace tpplan {
namespace {

using Runs = std::vector<Interval>;

// A call of regroup_maps.
struct Regroup {
  std::span<const MapId> from;
  std::span<const int64_t> to;
  std::span<const std::vector<int64_t>> local;  // [dim][rank]
};

// Merges dims into one: the flat indices of a rank's elements, row-major. False where the runs become too many.
bool merge_dims(const MapTable& table, std::span<const MapId> from, size_t rank, Runs& runs) {
  runs.assign(1, {0, 1});
  for (const MapId id : from) {
    const DimMap& map = table.maps[id];
    const Runs inner = runs_of(map, rank);
    Runs next;
    const bool whole = inner.size() == 1 && inner[0] == Interval{0, map.size};
    for (const Interval& run : runs) {
      if (whole) {
        append_run(next, {run.begin * map.size, run.end * map.size});
        continue;
      }
      for (int64_t i = run.begin; i < run.end; ++i) {
        for (const Interval& piece : inner) append_run(next, {i * map.size + piece.begin, i * map.size + piece.end});
        if (next.size() > kMaxRuns) return false;
      }
    }
    runs.swap(next);
  }
  return true;
}

// Reads runs from the front, a row's worth at a time.
struct RunReader {
  const Runs& runs;
  size_t at = 0;
  int64_t offset = 0;  // into runs[at]
};

// The next `count` flat elements as columns of one row of `inner` elements. False where they are not of one row.
bool read_row(RunReader& reader, int64_t count, int64_t inner, int64_t& row, Runs& columns) {
  row = -1;
  for (int64_t left = count; left > 0;) {
    if (reader.at == reader.runs.size()) return false;
    const int64_t end = reader.runs[reader.at].end, begin = reader.runs[reader.at].begin + reader.offset;
    const int64_t n = std::min({left, end - begin, inner - begin % inner});
    if (row < 0) row = begin / inner;
    if (begin / inner != row) return false;
    append_run(columns, {begin % inner, begin % inner + n});
    left -= n;
    reader.offset += n;
    if (begin + n == end) {
      ++reader.at;
      reader.offset = 0;
    }
  }
  return true;
}

// Splits a flat dim of size outer * inner: each rank's runs must be a grid, some rows of the outer by some columns of
// the inner, because each of two dims has one list of elements for all elements of the other.
bool split_dim(const Runs& runs, int64_t inner, int64_t local_outer, int64_t local_inner, Runs& outer_runs,
               Runs& inner_runs) {
  outer_runs.clear();
  inner_runs.clear();
  if (local_outer == 0 || local_inner == 0) return runs.empty();
  if (local_inner == inner) {
    // Rows are whole: every run begins and ends at a row.
    for (const Interval& run : runs) {
      if (run.begin % inner != 0 || run.end % inner != 0) return false;
      append_run(outer_runs, {run.begin / inner, run.end / inner});
    }
    inner_runs = {{0, inner}};
    return true;
  }
  // Rows are pieces: runs come row by row, the same columns in each.
  RunReader reader{runs};
  for (int64_t i = 0; i < local_outer; ++i) {
    Runs columns;
    int64_t row = 0;
    if (!read_row(reader, local_inner, inner, row, columns)) return false;
    if (i == 0) inner_runs = columns;
    if (columns != inner_runs || outer_runs.size() > kMaxRuns) return false;
    append_run(outer_runs, {row, row + 1});
  }
  return reader.at == runs.size();
}

AxisMask axes_of(const MapTable& table, std::span<const MapId> maps) {
  AxisMask axes = 0;
  for (const MapId id : maps) axes |= table.maps[id].axes;
  return axes;
}

// With a dim along which nothing changes: it keeps that through a merge or a split only where the others are whole or
// single; sizes decide.
std::optional<std::vector<MapId>> regroup_repeats(MapTable& table, const Regroup& r, std::string& fault) {
  const bool cut = std::any_of(r.from.begin(), r.from.end(), [&](MapId id) {
    return table.maps[id].size != 1 && table.maps[id].kind == MapKind::Cut;
  });
  if (!cut) {
    std::vector<MapId> maps;
    for (size_t dim = 0; dim < r.to.size(); ++dim)
      maps.push_back(any_map(table, r.to[dim], r.local[dim], axes_of(table, r.from)));
    return maps;
  }
  // A cut dim before an expanded one (keys repeated for each group of heads): as if the expanded one were whole.
  if (r.from.size() == 2 && r.to.size() == 1) {
    const DimMap heads = table.maps[r.from[0]], repeats = table.maps[r.from[1]];
    const bool are_whole =
        std::all_of(repeats.local.begin(), repeats.local.end(), [&](int64_t held) { return held == repeats.size; });
    if (repeats.kind == MapKind::Any && are_whole) {
      RankRuns runs(table.ranks);
      for (size_t rank = 0; rank < table.ranks; ++rank) {
        for (const Interval& run : runs_of(heads, rank))
          append_run(runs[rank], {run.begin * repeats.size, run.end * repeats.size});
      }
      return std::vector<MapId>{runs_map(table, r.to[0], std::move(runs))};
    }
  }
  fault = "pieces of one dim and repeats of another are merged";
  return std::nullopt;
}

// The runs of one rank along each new dim, into out[dim][rank]: all dims are merged into one, and the new ones split
// off its front.
bool regroup_rank(const MapTable& table, const Regroup& r, size_t rank, std::vector<RankRuns>& out,
                  std::string& fault) {
  Runs rest, outer, inner;
  if (!merge_dims(table, r.from, rank, rest)) {
    fault = "its pieces are too small to follow";
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
      fault = fmt::format("rank {} holds {}, which are no pieces of {} by {}", rank, map_text(table, r.from.back()),
                          size, rest_size);
      return false;
    }
    out[dim][rank] = outer;
    rest = inner;
  }
  out.back()[rank] = rest;
  return true;
}

// A new dim whose runs have other sizes than ranks asked for: an empty piece says nothing of the other dims, and they
// are as the ranks that hold something have them.
MapId of_asked_sizes(MapTable& table, const Regroup& r, size_t dim, MapId found) {
  const std::vector<int64_t>& asked = r.local[dim];
  if (table.maps[found].local == asked) return found;
  const DimMap map = table.maps[found];
  bool whole_elsewhere = true;
  for (size_t rank = 0; rank < table.ranks; ++rank)
    whole_elsewhere =
        whole_elsewhere && asked[rank] == r.to[dim] && (map.local[rank] == r.to[dim] || map.local[rank] == 0);
  return whole_elsewhere ? whole_map(table, r.to[dim]) : any_map(table, r.to[dim], asked, axes_of(table, r.from));
}

// All elements on every rank; the sizes may be a rank's own all the same.
bool is_as_recorded(const MapTable& table, const Regroup& r) {
  if (!std::all_of(r.from.begin(), r.from.end(), [&](MapId id) { return is_whole(table, id); })) return false;
  for (size_t dim = 0; dim < r.to.size(); ++dim) {
    for (const int64_t size : r.local[dim]) {
      if (size != r.to[dim]) return false;
    }
  }
  return true;
}

}  // namespace

std::optional<std::vector<MapId>> regroup_maps(MapTable& table, std::span<const MapId> from,
                                               std::span<const int64_t> to, std::span<const std::vector<int64_t>> local,
                                               std::string& fault) {
  if (from.size() == 1 && to.size() == 1) return std::vector<MapId>{from[0]};
  const Regroup r{from, to, local};
  std::vector<MapId> maps;
  if (is_as_recorded(table, r)) {
    for (const int64_t size : to) maps.push_back(whole_map(table, size));
    return maps;
  }
  if (std::any_of(from.begin(), from.end(), [&](MapId id) { return table.maps[id].kind == MapKind::Any; }))
    return regroup_repeats(table, r, fault);
  std::vector<RankRuns> runs(to.size(), RankRuns(table.ranks));
  for (size_t rank = 0; rank < table.ranks; ++rank) {
    if (!regroup_rank(table, r, rank, runs, fault)) return std::nullopt;
  }
  for (size_t dim = 0; dim < to.size(); ++dim)
    maps.push_back(of_asked_sizes(table, r, dim, runs_map(table, to[dim], std::move(runs[dim]))));
  return maps;
}

}  // namespace tpplan
