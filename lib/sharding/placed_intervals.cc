#include "sharding/placed_intervals.h"

#include <algorithm>
#include <numeric>

namespace tpplan {
namespace {

using RunList = std::vector<Interval>;

int64_t total(const RunList& runs) {
  return std::accumulate(runs.begin(), runs.end(), int64_t{0},
                         [](int64_t sum, const Interval& run) { return sum + run.end - run.begin; });
}

// Returns elements [from, to), counted through the concatenated intervals.
RunList part_of(const RunList& runs, int64_t from, int64_t to) {
  RunList part;
  int64_t passed = 0;
  for (const Interval& run : runs) {
    const int64_t begin = std::max(from - passed, int64_t{0}), end = std::min(to - passed, run.end - run.begin);
    passed += run.end - run.begin;
    if (begin < end) part.push_back({run.begin + begin, run.begin + end});
  }
  return part;
}

// Returns part `index` of `count` parts of ceil(size / count) elements; the last ones are shorter or empty.
RunList one_part(const RunList& runs, int64_t count, int64_t index) {
  const int64_t size = total(runs), most = (size + count - 1) / count;
  return part_of(runs, std::min(size, most * index), std::min(size, most * index + most));
}

void append(RunList& to, const RunList& more) {
  for (const Interval& run : more) {
    if (!to.empty() && to.back().end == run.begin)
      to.back().end = run.end;
    else
      to.push_back(run);
  }
}

// Returns the difference of two ranks that are adjacent along an axis: the product of the sizes of the axes to its
// right.
int64_t rank_distance(const Mesh& mesh, size_t axis) {
  int64_t distance = 1;
  for (size_t right = mesh.axes.size(); --right > axis;) distance *= mesh.axes[right].size;
  return distance;
}

int64_t place_of(const Mesh& mesh, size_t axis, int64_t rank) {
  return rank / rank_distance(mesh, axis) % mesh.axes[axis].size;
}

RunList intervals_by_placements(int64_t size, std::span<const Placement> placements, const Mesh& mesh, size_t dim,
                                int64_t rank) {
  RunList runs = part_of({{0, size}}, 0, size);
  for (size_t axis = 0; axis < placements.size(); ++axis) {
    const Placement& placement = placements[axis];
    if (!is_shard(placement) || static_cast<size_t>(placement.dim) != dim) continue;
    const int64_t split = placement.kind == PlacementKind::StridedShard ? placement.split_factor : 1;
    RunList held;
    for (int64_t part = 0; part < split; ++part)
      append(held, one_part(one_part(runs, split, part), mesh.axes[axis].size, place_of(mesh, axis, rank)));
    runs = std::move(held);
  }
  return runs;
}

RunList intervals_by_spec(Interval segment, const DimAxes& axes, const Mesh& mesh, int64_t rank) {
  RunList runs{segment};
  for (const AxisId axis : axes) runs = one_part(runs, mesh.axes[axis].size, place_of(mesh, axis, rank));
  return runs;
}

}  // namespace

std::vector<Interval> placed_intervals(std::span<const int64_t> shape, const Sharding& sharding,
                                       std::span<const Placement> placements, const Mesh& mesh, size_t dim,
                                       int64_t rank) {
  const std::span<const int64_t> segments = segments_of(sharding, dim);
  int64_t shards = 1;
  for (const AxisId axis : sharding.spec[dim]) shards *= mesh.axes[axis].size;
  if (segments.empty() && shape[dim] % shards == 0)
    return intervals_by_placements(shape[dim], placements, mesh, dim, rank);
  RunList held;
  int64_t begin = 0;
  for (const int64_t size : segments.empty() ? shape.subspan(dim, 1) : segments) {
    append(held, intervals_by_spec({begin, begin + size}, sharding.spec[dim], mesh, rank));
    begin += size;
  }
  return held;
}

std::string placement_mismatch(std::span<const int64_t> shape, const Sharding& sharding, const Mesh& mesh, int64_t rank,
                               SliceFunction slice) {
  const auto cut = slice(shape, sharding, mesh, coordinate_of(mesh, rank));
  const std::vector<Placement> placements =
      placements_of(sharding, mesh).value_or(plain_placements(sharding.spec, mesh));
  const auto text = [](const RunList& runs) {
    std::string out;
    for (const Interval& run : runs)
      out += (out.empty() ? "[" : ", [") + std::to_string(run.begin) + ", " + std::to_string(run.end) + ")";
    return out.empty() ? std::string("nothing") : out;
  };
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    RunList held;
    for (const Interval& run : cut[dim]) {
      if (run.begin < run.end) append(held, {run});
    }
    const RunList placed = placed_intervals(shape, sharding, placements, mesh, dim, rank);
    if (held == placed) continue;
    return "rank " + std::to_string(rank) + " has " + text(held) + " of dim " + std::to_string(dim) +
           ", but its placements require " + text(placed);
  }
  return "";
}

std::vector<int64_t> sample_ranks(const Mesh& mesh) {
  int64_t ranks = 1;
  for (const MeshAxis& axis : mesh.axes) ranks *= axis.size;
  std::vector<int64_t> telling{0};
  for (size_t axis = 0; axis < mesh.axes.size(); ++axis) {
    if (mesh.axes[axis].size > 1) telling.push_back(rank_distance(mesh, axis));
  }
  if (ranks > 1) telling.push_back(ranks - 1);
  return telling;
}

}  // namespace tpplan
