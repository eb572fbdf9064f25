#include "ops/dim_layout.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

namespace tpplan {
namespace {

DimLayoutId intern(DimLayoutTable& table, DimLayout map) {
  std::string key;
  const auto put = [&key](int64_t number) { key.append(reinterpret_cast<const char*>(&number), sizeof number); };
  put(static_cast<int64_t>(map.kind));
  put(map.size);
  if (map.kind == DimLayoutKind::Any) {
    put(map.axes);
    for (const int64_t size : map.local) put(size);
  } else if (map.kind == DimLayoutKind::Sharded) {
    for (const auto& intervals : map.intervals) {
      for (const Interval& run : intervals) {
        put(run.begin);
        put(run.end);
      }
      put(-1);
    }
  }
  const auto [entry, is_new] = table.index.try_emplace(std::move(key), static_cast<DimLayoutId>(table.maps.size()));
  if (is_new) table.maps.push_back(std::move(map));
  return entry->second;
}

void merge(std::vector<Interval>& intervals) {
  size_t merged = 0;
  for (const Interval& run : intervals) {
    if (run.begin == run.end) continue;
    if (merged > 0 && intervals[merged - 1].end == run.begin)
      intervals[merged - 1].end = run.end;
    else
      intervals[merged++] = run;
  }
  intervals.resize(merged);
}

// True if the intervals, in any order, cover 0..size-1 without overlaps.
bool fills(std::vector<Interval> intervals, int64_t size) {
  std::sort(intervals.begin(), intervals.end(), [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  int64_t at = 0;
  for (const Interval& run : intervals) {
    if (run.begin != at) return false;
    at = run.end;
  }
  return at == size;
}

int64_t total(const std::vector<Interval>& intervals) {
  int64_t sum = 0;
  for (const Interval& run : intervals) sum += length(run);
  return sum;
}

}  // namespace

void append_interval(std::vector<Interval>& intervals, Interval run) {
  if (run.begin == run.end) return;
  if (!intervals.empty() && intervals.back().end == run.begin)
    intervals.back().end = run.end;
  else
    intervals.push_back(run);
}

void reset_for_axes(DimLayoutTable& table, std::vector<size_t> axes) {
  table.ranks = 1;
  for (const size_t size : axes) table.ranks *= size;
  table.axes = std::move(axes);
  table.wholes.clear();
  table.shardings.clear();
}

namespace {

// Returns the rank distance of neighbours along an axis.
size_t stride_of(const DimLayoutTable& table, size_t axis) {
  size_t stride = 1;
  for (size_t i = axis + 1; i < table.axes.size(); ++i) stride *= table.axes[i];
  return stride;
}

AxisMask all_axes(const DimLayoutTable& table) { return (AxisMask{1} << table.axes.size()) - 1; }

}  // namespace

size_t coordinate(const DimLayoutTable& table, size_t rank, size_t axis) {
  return rank / stride_of(table, axis) % table.axes[axis];
}

DimLayoutId replicated_dim(DimLayoutTable& table, int64_t size) {
  if (const auto known = table.wholes.find(size); known != table.wholes.end()) return known->second;
  return table.wholes[size] = intern(table, {.kind = DimLayoutKind::Replicated,
                                             .size = size,
                                             .local = std::vector<int64_t>(table.ranks, size),
                                             .intervals = {},
                                             .axes = 0,
                                             .is_complete = true,
                                             .tiles = table.ranks == 1});
}

namespace {

DimLayoutId shard_again(DimLayoutTable& table, DimLayoutId id, size_t axis, int64_t factor) {
  const DimLayout map = table.maps[id];  // a copy, because interning can move the table
  const auto shards = static_cast<int64_t>(table.axes[axis]);
  if (map.kind == DimLayoutKind::Any) {
    std::vector<int64_t> local;
    for (size_t rank = 0; rank < table.ranks; ++rank)
      local.push_back(length(chunk({0, map.local[rank]}, shards, static_cast<int64_t>(coordinate(table, rank, axis)))));
    return unknown_dim(table, map.size, std::move(local), map.axes | AxisMask{1} << axis);
  }
  RankIntervals intervals(table.ranks);
  for (size_t rank = 0; rank < table.ranks; ++rank) {
    const auto index = static_cast<int64_t>(coordinate(table, rank, axis));
    for (int64_t segment = 0; segment < factor; ++segment) {
      const Interval local{0, map.local[rank]};
      const Interval shard = chunk(factor == 1 ? local : chunk(local, factor, segment), shards, index);
      int64_t first = 0;  // local index of the interval's first element
      for (const Interval& run : rank_intervals(map, rank)) {
        const int64_t begin = std::max(shard.begin, first), end = std::min(shard.end, first + length(run));
        if (begin < end) append_interval(intervals[rank], {run.begin + begin - first, run.begin + end - first});
        first += length(run);
      }
    }
  }
  return layout_of_intervals(table, map.size, std::move(intervals));
}

}  // namespace

DimLayoutId sharded_dim(DimLayoutTable& table, DimLayoutId id, size_t axis, int64_t factor) {
  const auto known = table.shardings.find({id, axis, factor});
  if (known != table.shardings.end()) return known->second;
  const DimLayoutId sharded = shard_again(table, id, axis, factor);
  table.shardings[{id, axis, factor}] = sharded;
  return sharded;
}

DimLayoutId unknown_dim(DimLayoutTable& table, int64_t size, std::vector<int64_t> local, AxisMask axes) {
  if (std::all_of(local.begin(), local.end(), [size](int64_t n) { return n == size; }))
    return replicated_dim(table, size);
  return intern(table, {.kind = DimLayoutKind::Any,
                        .size = size,
                        .local = std::move(local),
                        .intervals = {},
                        .axes = (axes & all_axes(table)) == 0 ? all_axes(table) : axes & all_axes(table),
                        .is_complete = false,
                        .tiles = false});
}

DimLayoutId layout_of_intervals(DimLayoutTable& table, int64_t size, RankIntervals intervals) {
  bool is_replicated = true, complete = true, equal = true;
  DimLayout map{.kind = DimLayoutKind::Sharded,
                .size = size,
                .local = {},
                .intervals = {},
                .axes = 0,
                .is_complete = false,
                .tiles = false};
  for (auto& rank : intervals) {
    merge(rank);
    is_replicated = is_replicated && (size == 0 ? rank.empty() : rank.size() == 1 && rank[0] == Interval{0, size});
    complete = complete && total(rank) == size && fills(rank, size);
    equal = equal && rank == intervals[0];
    map.local.push_back(total(rank));
  }
  if (is_replicated) return replicated_dim(table, size);
  map.is_complete = complete && equal;
  for (size_t axis = 0; axis < table.axes.size() && !map.is_complete; ++axis) {
    const size_t stride = stride_of(table, axis);
    for (size_t rank = 0; rank < table.ranks; ++rank) {
      const size_t index = coordinate(table, rank, axis);
      if (index > 0 && intervals[rank] != intervals[rank - index * stride]) map.axes |= AxisMask{1} << axis;
    }
  }
  // Equal intervals on all ranks are not the shards of any axis. They count as sharded along all axes.
  if (map.axes == 0 && !map.is_complete) map.axes = all_axes(table);
  std::vector<Interval> all;
  for (size_t rank = 0; rank < table.ranks; ++rank) {
    bool counts = true;
    for (size_t axis = 0; axis < table.axes.size(); ++axis)
      counts = counts && ((map.axes >> axis & 1) != 0 || coordinate(table, rank, axis) == 0);
    if (counts) all.insert(all.end(), intervals[rank].begin(), intervals[rank].end());
  }
  map.tiles = total(all) == size && fills(std::move(all), size);
  map.intervals = std::move(intervals);
  return intern(table, std::move(map));
}

bool differs_from_global(const DimLayoutTable& table, DimLayoutId map) {
  const DimLayout& m = table.maps[map];
  return !m.is_complete;
}

bool same_sizes(const DimLayoutTable& table, DimLayoutId a, DimLayoutId b) {
  return a == b || table.maps[a].local == table.maps[b].local;
}

std::vector<Interval> rank_intervals(const DimLayout& map, size_t rank) {
  if (map.kind == DimLayoutKind::Sharded) return map.intervals[rank];
  if (map.kind == DimLayoutKind::Replicated && map.size > 0) return {{0, map.size}};
  return {};
}

DimLayoutId gathered_dim(DimLayoutTable& table, DimLayoutId id, size_t axis, bool& is_right) {
  const DimLayout map = table.maps[id];
  const size_t stride = stride_of(table, axis), shards = table.axes[axis];
  is_right = map.kind == DimLayoutKind::Sharded && map.tiles && (map.axes >> axis & 1) != 0;
  RankIntervals intervals(table.ranks);
  std::vector<int64_t> local(table.ranks);
  for (size_t rank = 0; rank < table.ranks; ++rank) {
    const size_t first = rank - coordinate(table, rank, axis) * stride;
    for (size_t i = 0; i < shards; ++i) {
      const size_t other = first + i * stride;
      local[rank] += map.local[other];
      if (!is_right) continue;
      for (const Interval& run : map.intervals[other]) append_interval(intervals[rank], run);
    }
  }
  if (is_right) return layout_of_intervals(table, map.size, std::move(intervals));
  return unknown_dim(table, map.size, std::move(local), map.axes);
}

std::string dim_layout_text(const DimLayoutTable& table, DimLayoutId id) {
  const DimLayout& map = table.maps[id];
  if (map.kind == DimLayoutKind::Replicated) return "all";
  std::string out;
  for (size_t rank = 0; rank < table.ranks && rank < 4; ++rank) {
    if (rank > 0) out += " | ";
    if (map.kind == DimLayoutKind::Any) {
      out += fmt::format("{} of {}", map.local[rank], map.size);
      continue;
    }
    const auto& intervals = map.intervals[rank];
    if (intervals.empty()) out += "none";
    for (size_t i = 0; i < intervals.size() && i < 3; ++i)
      out += fmt::format("{}{}..{}", i == 0 ? "" : ",", intervals[i].begin, intervals[i].end - 1);
    if (intervals.size() > 3) out += ",...";
  }
  if (table.ranks > 4) out += " | ...";
  return out;
}

}  // namespace tpplan
