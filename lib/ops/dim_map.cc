#include "ops/dim_map.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

namespace tpplan {
namespace {

MapId intern(MapTable& table, DimMap map) {
  std::string key;
  const auto put = [&key](int64_t number) { key.append(reinterpret_cast<const char*>(&number), sizeof number); };
  put(static_cast<int64_t>(map.kind));
  put(map.size);
  if (map.kind == MapKind::Any) {
    put(map.axes);
    for (const int64_t size : map.local) put(size);
  } else if (map.kind == MapKind::Cut) {
    for (const auto& runs : map.runs) {
      for (const Interval& run : runs) {
        put(run.begin);
        put(run.end);
      }
      put(-1);
    }
  }
  const auto [entry, is_new] = table.index.try_emplace(std::move(key), static_cast<MapId>(table.maps.size()));
  if (is_new) table.maps.push_back(std::move(map));
  return entry->second;
}

void merge(std::vector<Interval>& runs) {
  size_t kept = 0;
  for (const Interval& run : runs) {
    if (run.begin == run.end) continue;
    if (kept > 0 && runs[kept - 1].end == run.begin)
      runs[kept - 1].end = run.end;
    else
      runs[kept++] = run;
  }
  runs.resize(kept);
}

// True when the runs, in any order, are 0..size-1 with no element twice.
bool fills(std::vector<Interval> runs, int64_t size) {
  std::sort(runs.begin(), runs.end(), [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  int64_t at = 0;
  for (const Interval& run : runs) {
    if (run.begin != at) return false;
    at = run.end;
  }
  return at == size;
}

int64_t total(const std::vector<Interval>& runs) {
  int64_t sum = 0;
  for (const Interval& run : runs) sum += length(run);
  return sum;
}

void append(std::vector<Interval>& runs, Interval run) {
  if (run.begin == run.end) return;
  if (!runs.empty() && runs.back().end == run.begin)
    runs.back().end = run.end;
  else
    runs.push_back(run);
}

}  // namespace

void set_axes(MapTable& table, std::vector<size_t> axes) {
  table.ranks = 1;
  for (const size_t size : axes) table.ranks *= size;
  table.axes = std::move(axes);
}

namespace {

// How far apart the ranks are that follow each other along an axis.
size_t stride_of(const MapTable& table, size_t axis) {
  size_t stride = 1;
  for (size_t i = axis + 1; i < table.axes.size(); ++i) stride *= table.axes[i];
  return stride;
}

AxisMask all_axes(const MapTable& table) { return (AxisMask{1} << table.axes.size()) - 1; }

}  // namespace

size_t coordinate(const MapTable& table, size_t rank, size_t axis) {
  return rank / stride_of(table, axis) % table.axes[axis];
}

MapId whole_map(MapTable& table, int64_t size) {
  return intern(table, {.kind = MapKind::Whole,
                        .size = size,
                        .local = std::vector<int64_t>(table.ranks, size),
                        .runs = {},
                        .axes = 0,
                        .is_complete = true,
                        .tiles = table.ranks == 1});
}

MapId cut_map(MapTable& table, MapId id, size_t axis, int64_t factor) {
  const DimMap map = table.maps[id];  // interning may move the table
  const auto ways = static_cast<int64_t>(table.axes[axis]);
  if (map.kind == MapKind::Any) {
    std::vector<int64_t> local;
    for (size_t rank = 0; rank < table.ranks; ++rank)
      local.push_back(length(chunk({0, map.local[rank]}, ways, static_cast<int64_t>(coordinate(table, rank, axis)))));
    return any_map(table, map.size, std::move(local), map.axes | AxisMask{1} << axis);
  }
  RankRuns runs(table.ranks);
  for (size_t rank = 0; rank < table.ranks; ++rank) {
    const auto index = static_cast<int64_t>(coordinate(table, rank, axis));
    for (int64_t segment = 0; segment < factor; ++segment) {
      const Interval whole{0, map.local[rank]};
      const Interval piece = chunk(factor == 1 ? whole : chunk(whole, factor, segment), ways, index);
      int64_t first = 0;  // of the run among the rank's own elements
      for (const Interval& run : runs_of(map, rank)) {
        const int64_t begin = std::max(piece.begin, first), end = std::min(piece.end, first + length(run));
        if (begin < end) append(runs[rank], {run.begin + begin - first, run.begin + end - first});
        first += length(run);
      }
    }
  }
  return runs_map(table, map.size, std::move(runs));
}

MapId any_map(MapTable& table, int64_t size, std::vector<int64_t> local, AxisMask axes) {
  if (std::all_of(local.begin(), local.end(), [size](int64_t n) { return n == size; })) return whole_map(table, size);
  return intern(table, {.kind = MapKind::Any,
                        .size = size,
                        .local = std::move(local),
                        .runs = {},
                        .axes = (axes & all_axes(table)) == 0 ? all_axes(table) : axes & all_axes(table),
                        .is_complete = false,
                        .tiles = false});
}

MapId runs_map(MapTable& table, int64_t size, RankRuns runs) {
  bool whole = true, complete = true, equal = true;
  DimMap map{
      .kind = MapKind::Cut, .size = size, .local = {}, .runs = {}, .axes = 0, .is_complete = false, .tiles = false};
  for (auto& rank : runs) {
    merge(rank);
    whole = whole && (size == 0 ? rank.empty() : rank.size() == 1 && rank[0] == Interval{0, size});
    complete = complete && total(rank) == size && fills(rank, size);
    equal = equal && rank == runs[0];
    map.local.push_back(total(rank));
  }
  if (whole) return whole_map(table, size);
  map.is_complete = complete && equal;
  for (size_t axis = 0; axis < table.axes.size() && !map.is_complete; ++axis) {
    const size_t stride = stride_of(table, axis);
    for (size_t rank = 0; rank < table.ranks; ++rank) {
      const size_t index = coordinate(table, rank, axis);
      if (index > 0 && runs[rank] != runs[rank - index * stride]) map.axes |= AxisMask{1} << axis;
    }
  }
  // Equal pieces on all ranks are no pieces of one whole along any axis: they count as cut along all.
  if (map.axes == 0 && !map.is_complete) map.axes = all_axes(table);
  std::vector<Interval> all;
  for (size_t rank = 0; rank < table.ranks; ++rank) {
    bool counts = true;
    for (size_t axis = 0; axis < table.axes.size(); ++axis)
      counts = counts && ((map.axes >> axis & 1) != 0 || coordinate(table, rank, axis) == 0);
    if (counts) all.insert(all.end(), runs[rank].begin(), runs[rank].end());
  }
  map.tiles = total(all) == size && fills(std::move(all), size);
  map.runs = std::move(runs);
  return intern(table, std::move(map));
}

bool is_piece(const MapTable& table, MapId map) {
  const DimMap& m = table.maps[map];
  return !m.is_complete;
}

bool same_sizes(const MapTable& table, MapId a, MapId b) {
  return a == b || table.maps[a].local == table.maps[b].local;
}

std::vector<Interval> runs_of(const DimMap& map, size_t rank) {
  if (map.kind == MapKind::Cut) return map.runs[rank];
  if (map.kind == MapKind::Whole && map.size > 0) return {{0, map.size}};
  return {};
}

std::optional<MapId> slice_map(MapTable& table, MapId id, std::span<const LocalSlice> local, const LocalSlice& whole,
                               std::string& fault) {
  const DimMap map = table.maps[id];  // interning may move the table
  const auto count = [](const LocalSlice& s) {
    return s.end <= s.begin ? int64_t{0} : (s.end - s.begin + s.step - 1) / s.step;
  };
  const int64_t size = count(whole);
  if (map.kind == MapKind::Any) {
    std::vector<int64_t> sizes;
    for (const LocalSlice& slice : local) sizes.push_back(count(slice));
    return any_map(table, size, std::move(sizes), map.axes);
  }
  RankRuns runs(table.ranks);
  for (size_t rank = 0; rank < table.ranks; ++rank) {
    const LocalSlice& slice = local[rank];
    int64_t first = 0;  // local index of the run's first element
    for (const Interval& run : runs_of(map, rank)) {
      const int64_t after = first + length(run);
      // Local indices slice.begin + k * step inside [first, after).
      const int64_t skip = slice.begin >= first ? 0 : (first - slice.begin + slice.step - 1) / slice.step;
      int64_t at = slice.begin + skip * slice.step;
      const int64_t stop = std::min(after, slice.end);
      if (at < stop) {
        const int64_t n = (stop - at + slice.step - 1) / slice.step;
        const int64_t g = run.begin + (at - first);
        const int64_t last = g + (n - 1) * slice.step;
        const bool inside = g >= whole.begin && last < whole.end && (g - whole.begin) % whole.step == 0;
        if (!inside || (slice.step != whole.step && n > 1)) {
          fault = fmt::format("rank {} takes {}..{} of the whole, which takes {}..{}", rank, g, last, whole.begin,
                              whole.end - 1);
          return std::nullopt;
        }
        append(runs[rank], {(g - whole.begin) / whole.step, (g - whole.begin) / whole.step + n});
        if (runs[rank].size() > kMaxRuns) {
          fault = "its pieces are too small to follow";
          return std::nullopt;
        }
      }
      first = after;
    }
  }
  return runs_map(table, size, std::move(runs));
}

std::optional<MapId> concat_maps(MapTable& table, std::span<const MapId> parts) {
  int64_t size = 0;
  bool any = false;
  std::vector<int64_t> local(table.ranks);
  AxisMask axes = 0;
  for (const MapId part : parts) {
    axes |= table.maps[part].axes;
    size += table.maps[part].size;
    any = any || table.maps[part].kind == MapKind::Any;
    for (size_t rank = 0; rank < table.ranks; ++rank) local[rank] += table.maps[part].local[rank];
  }
  if (any) return any_map(table, size, std::move(local), axes);
  RankRuns runs(table.ranks);
  int64_t offset = 0;
  for (const MapId part : parts) {
    for (size_t rank = 0; rank < table.ranks; ++rank) {
      for (const Interval& run : runs_of(table.maps[part], rank))
        append(runs[rank], {run.begin + offset, run.end + offset});
      if (runs[rank].size() > kMaxRuns) return std::nullopt;
    }
    offset += table.maps[part].size;
  }
  return runs_map(table, size, std::move(runs));
}

namespace {

// Merges dims into one: the flat indices of a rank's elements, row-major.
bool merge_dims(const MapTable& table, std::span<const MapId> from, size_t rank, std::vector<Interval>& runs) {
  runs.assign(1, {0, 1});
  for (const MapId id : from) {
    const DimMap& map = table.maps[id];
    const std::vector<Interval> inner = runs_of(map, rank);
    std::vector<Interval> next;
    const bool whole = inner.size() == 1 && inner[0] == Interval{0, map.size};
    for (const Interval& run : runs) {
      if (whole) {
        append(next, {run.begin * map.size, run.end * map.size});
        continue;
      }
      for (int64_t i = run.begin; i < run.end; ++i) {
        for (const Interval& piece : inner) append(next, {i * map.size + piece.begin, i * map.size + piece.end});
        if (next.size() > kMaxRuns) return false;
      }
    }
    runs.swap(next);
  }
  return true;
}

// Splits a flat dim of size outer * inner: each rank's runs must be a grid, some rows of the outer by some columns of
// the inner.
bool split_dim(const std::vector<Interval>& runs, int64_t inner, int64_t local_outer, int64_t local_inner,
               std::vector<Interval>& outer_runs, std::vector<Interval>& inner_runs) {
  outer_runs.clear();
  inner_runs.clear();
  if (local_outer == 0 || local_inner == 0) return runs.empty();
  if (local_inner == inner) {
    // Rows are whole: every run begins and ends at a row.
    for (const Interval& run : runs) {
      if (run.begin % inner != 0 || run.end % inner != 0) return false;
      append(outer_runs, {run.begin / inner, run.end / inner});
    }
    inner_runs = {{0, inner}};
    return true;
  }
  // Rows are pieces: runs come row by row, the same columns in each.
  size_t at = 0;
  int64_t offset = 0;  // into runs[at]
  for (int64_t row = 0; row < local_outer; ++row) {
    std::vector<Interval> columns;
    int64_t left = local_inner, outer = -1;
    while (left > 0) {
      if (at == runs.size()) return false;
      const int64_t begin = runs[at].begin + offset;
      const int64_t n = std::min({left, runs[at].end - begin, inner - begin % inner});
      if (outer < 0) outer = begin / inner;
      if (begin / inner != outer) return false;
      append(columns, {begin % inner, begin % inner + n});
      left -= n;
      offset += n;
      if (runs[at].begin + offset == runs[at].end) {
        ++at;
        offset = 0;
      }
    }
    if (row == 0) inner_runs = columns;
    if (columns != inner_runs || outer_runs.size() > kMaxRuns) return false;
    append(outer_runs, {outer, outer + 1});
  }
  return at == runs.size();
}

}  // namespace

std::optional<std::vector<MapId>> regroup_maps(MapTable& table, std::span<const MapId> from,
                                               std::span<const int64_t> to, std::span<const std::vector<int64_t>> local,
                                               std::string& fault) {
  if (from.size() == 1 && to.size() == 1) return std::vector<MapId>{from[0]};
  const bool any = std::any_of(from.begin(), from.end(), [&](MapId id) { return table.maps[id].kind == MapKind::Any; });
  const bool whole = std::all_of(from.begin(), from.end(), [&](MapId id) { return is_whole(table, id); });
  std::vector<MapId> maps;
  AxisMask axes = 0;
  for (const MapId id : from) axes |= table.maps[id].axes;
  if (whole && !any) {
    // All elements on every rank; the sizes may be a rank's own all the same.
    bool as_recorded = true;
    for (size_t dim = 0; dim < to.size(); ++dim) {
      for (const int64_t size : local[dim]) as_recorded = as_recorded && size == to[dim];
      maps.push_back(whole_map(table, to[dim]));
    }
    if (as_recorded) return maps;
    maps.clear();
  }
  if (any) {
    // A dim along which nothing changes keeps that through a merge or a split only where the others are whole or
    // single; sizes decide.
    std::vector<MapId> cut;
    for (const MapId id : from) {
      if (table.maps[id].size != 1 && table.maps[id].kind == MapKind::Cut) cut.push_back(id);
    }
    for (size_t dim = 0; dim < to.size(); ++dim) maps.push_back(any_map(table, to[dim], local[dim], axes));
    if (cut.empty()) return maps;
    // An expanded dim next to a cut one (keys repeated for each group of heads): as if the expanded one were whole.
    if (from.size() == 2 && to.size() == 1) {
      const DimMap a = table.maps[from[0]], b = table.maps[from[1]];
      RankRuns runs(table.ranks);
      bool follows = true;
      for (size_t rank = 0; rank < table.ranks && follows; ++rank) {
        if (b.kind == MapKind::Any) {
          follows = b.local[rank] == b.size;
          for (const Interval& run : runs_of(a, rank)) append(runs[rank], {run.begin * b.size, run.end * b.size});
        } else {
          follows = false;
        }
      }
      if (follows) return std::vector<MapId>{runs_map(table, to[0], std::move(runs))};
    }
    fault = "pieces of one dim and repeats of another are merged";
    return std::nullopt;
  }
  std::vector<RankRuns> out(to.size(), RankRuns(table.ranks));
  for (size_t rank = 0; rank < table.ranks; ++rank) {
    std::vector<Interval> flat;
    if (!merge_dims(table, from, rank, flat)) {
      fault = "its pieces are too small to follow";
      return std::nullopt;
    }
    std::vector<Interval> rest = std::move(flat), outer, inner;
    int64_t rest_local = 1, rest_size = 1;
    for (size_t dim = 0; dim < to.size(); ++dim) {
      rest_local *= local[dim][rank];
      rest_size *= to[dim];
    }
    for (size_t dim = 0; dim + 1 < to.size(); ++dim) {
      rest_size = to[dim] == 0 ? 0 : rest_size / to[dim];
      rest_local = local[dim][rank] == 0 ? 0 : rest_local / local[dim][rank];
      if (!split_dim(rest, std::max<int64_t>(1, rest_size), local[dim][rank], rest_local, outer, inner)) {
        fault = fmt::format("rank {} holds {}, which are no pieces of {} by {}", rank, map_text(table, from.back()),
                            to[dim], rest_size);
        return std::nullopt;
      }
      out[dim][rank] = outer;
      rest = inner;
    }
    out.back()[rank] = rest;
  }
  for (size_t dim = 0; dim < to.size(); ++dim) maps.push_back(runs_map(table, to[dim], std::move(out[dim])));
  for (size_t dim = 0; dim < to.size(); ++dim) {
    // An empty piece says nothing of the other dims: they are as the ranks that hold something have them.
    if (table.maps[maps[dim]].local == local[dim]) continue;
    const DimMap map = table.maps[maps[dim]];
    bool whole_elsewhere = true;
    for (size_t rank = 0; rank < table.ranks; ++rank)
      whole_elsewhere =
          whole_elsewhere && local[dim][rank] == to[dim] && (map.local[rank] == to[dim] || map.local[rank] == 0);
    maps[dim] = whole_elsewhere ? whole_map(table, to[dim]) : any_map(table, to[dim], local[dim], axes);
  }
  return maps;
}

MapId gathered_map(MapTable& table, MapId id, size_t axis, bool& is_right) {
  const DimMap map = table.maps[id];
  const size_t stride = stride_of(table, axis), ways = table.axes[axis];
  is_right = map.kind == MapKind::Cut && map.tiles && (map.axes >> axis & 1) != 0;
  RankRuns runs(table.ranks);
  std::vector<int64_t> local(table.ranks);
  for (size_t rank = 0; rank < table.ranks; ++rank) {
    const size_t first = rank - coordinate(table, rank, axis) * stride;
    for (size_t i = 0; i < ways; ++i) {
      const size_t other = first + i * stride;
      local[rank] += map.local[other];
      if (!is_right) continue;
      for (const Interval& run : map.runs[other]) append(runs[rank], run);
    }
  }
  if (is_right) return runs_map(table, map.size, std::move(runs));
  return any_map(table, map.size, std::move(local), map.axes);
}

std::string map_text(const MapTable& table, MapId id) {
  const DimMap& map = table.maps[id];
  if (map.kind == MapKind::Whole) return "all";
  std::string out;
  for (size_t rank = 0; rank < table.ranks && rank < 4; ++rank) {
    if (rank > 0) out += " | ";
    if (map.kind == MapKind::Any) {
      out += fmt::format("{} of {}", map.local[rank], map.size);
      continue;
    }
    const auto& runs = map.runs[rank];
    if (runs.empty()) out += "none";
    for (size_t i = 0; i < runs.size() && i < 3; ++i)
      out += fmt::format("{}{}..{}", i == 0 ? "" : ",", runs[i].begin, runs[i].end - 1);
    if (runs.size() > 3) out += ",...";
  }
  if (table.ranks > 4) out += " | ...";
  return out;
}

}  // namespace tpplan
