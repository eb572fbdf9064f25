#include "sharding/check_sharding.h"

#include <algorithm>

#include "sharding/shard_slice.h"

namespace tpplan {
namespace {

// Checks the number of entries, the axis ids, and that no axis is used twice. Returns false if the later checks cannot
// run on the spec.
bool check_axes(size_t ndim, const PartitionSpec& spec, const Mesh& mesh, std::vector<ShardingError>& faults) {
  if (spec.size() != ndim) {
    faults.push_back({.kind = ShardingErrorKind::EntryCount,
                      .size = static_cast<int64_t>(ndim),
                      .found = static_cast<int64_t>(spec.size())});
    return false;
  }
  for (size_t dim = 0; dim < spec.size(); ++dim) {
    for (size_t i = 0; i < spec[dim].size(); ++i) {
      const AxisId axis = spec[dim][i];
      if (axis >= mesh.axes.size()) {
        faults.push_back({.kind = ShardingErrorKind::UnknownAxis, .dim = dim, .axis = axis});
        continue;
      }
      const auto is_axis = [axis](AxisId other) { return other == axis; };
      size_t other = dim;  // the last earlier dim that uses the axis
      bool is_twice = std::any_of(spec[dim].begin(), spec[dim].begin() + static_cast<std::ptrdiff_t>(i), is_axis);
      while (!is_twice && other > 0) is_twice = std::ranges::any_of(spec[--other], is_axis);
      if (is_twice)
        faults.push_back({.kind = ShardingErrorKind::AxisTwice, .dim = dim, .other_dim = other, .axis = axis});
    }
  }
  return faults.empty();
}

// Reports the size of a dim or segment that its axes do not divide.
void check_division(int64_t size, size_t dim, bool is_segment, const DimAxes& axes, const Mesh& mesh,
                    std::vector<ShardingError>& faults) {
  const int64_t shards = shard_count(axes, mesh);
  if (divides(shards, size)) return;
  const bool each_divides =
      std::all_of(axes.begin(), axes.end(), [&](AxisId axis) { return divides(mesh.axes[axis].size, size); });
  const ShardingErrorKind kind = is_segment                        ? ShardingErrorKind::SegmentNotDivisible
                                 : axes.size() > 1 && each_divides ? ShardingErrorKind::AxesNotDivisible
                                                                   : ShardingErrorKind::NotDivisible;
  faults.push_back({.kind = kind, .dim = dim, .axis = axes.front(), .size = size, .shards = shards});
}

// True if a shard boundary is inside a granule. Each axis, major first, splits every shard of the axes before it. As
// long as no boundary is inside a granule, all shards begin on granules, so only the set of their lengths matters.
bool splits_granule(int64_t size, int64_t granule, const DimAxes& axes, const Mesh& mesh) {
  std::vector<int64_t> lengths{size};
  for (const AxisId axis : axes) {
    std::vector<int64_t> pieces;
    for (const int64_t whole : lengths) {
      const int64_t piece = length(chunk({0, whole}, mesh.axes[axis].size, 0));
      if (piece != whole && piece % granule != 0) return true;
      pieces.push_back(piece);
      if (piece != 0 && whole % piece != 0) pieces.push_back(whole % piece);
    }
    std::ranges::sort(pieces);
    pieces.erase(std::unique(pieces.begin(), pieces.end()), pieces.end());
    lengths = std::move(pieces);
  }
  return false;
}

}  // namespace

std::string_view to_text(UnevenPolicy policy) { return kUnevenPolicyNames[static_cast<size_t>(policy)]; }

bool find_uneven_policy(std::string_view text, UnevenPolicy& policy) {
  const auto* found = std::ranges::find(kUnevenPolicyNames, text);
  if (found == std::end(kUnevenPolicyNames)) return false;
  policy = static_cast<UnevenPolicy>(found - std::begin(kUnevenPolicyNames));
  return true;
}

bool divides(int64_t shards, int64_t size) { return size % shards == 0; }

std::vector<int64_t> common_divisors(std::span<const int64_t> sizes, int64_t limit) {
  std::vector<int64_t> divisors;
  // A mesh can have 2^30 ranks. Counts above the smallest size cannot divide it and are not tried.
  for (const int64_t size : sizes) {
    if (size > 0) limit = std::min(limit, size);
  }
  for (int64_t shards = 1; shards <= limit; ++shards) {
    if (std::all_of(sizes.begin(), sizes.end(), [shards](int64_t size) { return divides(shards, size); }))
      divisors.push_back(shards);
  }
  return divisors;
}

std::vector<ShardingError> check_sharding(std::span<const int64_t> shape, const Sharding& sharding, const Mesh& mesh,
                                          UnevenPolicy uneven, std::span<const DimGranularity> granularity) {
  std::vector<ShardingError> faults;
  if (!check_axes(shape.size(), sharding.spec, mesh, faults)) return faults;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    const DimAxes& axes = sharding.spec[dim];
    if (axes.empty()) continue;
    const std::span<const int64_t> segments = segments_of(sharding, dim);
    int64_t total = 0;
    for (const int64_t segment : segments) total += segment;
    if (!segments.empty() && total != shape[dim]) {
      faults.push_back({.kind = ShardingErrorKind::SegmentsDoNotFit, .dim = dim, .size = shape[dim], .found = total});
      continue;
    }
    const auto runs = segments.empty() ? std::span<const int64_t>(&shape[dim], 1) : segments;
    const size_t before = faults.size();
    if (uneven == UnevenPolicy::Error) {
      for (size_t i = 0; i < runs.size() && faults.size() == before; ++i)
        check_division(runs[i], dim, !segments.empty(), axes, mesh, faults);
    }
    for (const DimGranularity& blocks : granularity) {
      if (blocks.dim != dim || blocks.granule <= 1 || faults.size() > before) continue;
      const auto cut = std::find_if(runs.begin(), runs.end(),
                                    [&](int64_t run) { return splits_granule(run, blocks.granule, axes, mesh); });
      if (cut == runs.end()) continue;
      faults.push_back({.kind = ShardingErrorKind::SplitsGranule,
                        .dim = dim,
                        .axis = axes.front(),
                        .size = *cut,
                        .shards = shard_count(axes, mesh),
                        .granule = blocks.granule});
    }
  }
  return faults;
}

}  // namespace tpplan
