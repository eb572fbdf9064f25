// The offsets of every rank's shard as plain numbers, without axes, coordinates or specs. Other derivations of the same
// offsets are checked against them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sharding/shard_slice.h"

namespace tpplan {

// The index of a rank along one axis is rank / stride % count; each step along the axis increases the index of the
// shard by `pieces`.
struct RankLevel {
  int64_t stride = 1, count = 1, pieces = 1;
  bool operator==(const RankLevel&) const = default;
};

// `count` consecutive shards of `length` elements each.
struct EqualShards {
  int64_t count = 0, length = 0;
  bool operator==(const EqualShards&) const = default;
};

// A sharded dim. The index of a rank's shard is the sum over `ranks`. `runs` has the shards of each segment in order
// (one segment if the dim is not fused), from its first index to its last.
struct DimOffsets {
  size_t dim = 0;
  std::vector<RankLevel> ranks;
  std::vector<std::vector<EqualShards>> runs;
  bool operator==(const DimOffsets&) const = default;
};

// The type of shard_slice; tests pass wrong implementations.
using SliceFunction = std::vector<std::vector<Interval>> (*)(std::span<const int64_t>, const Sharding&, const Mesh&,
                                                             std::span<const int64_t>);

// Returns the offsets of each sharded dim as `slice` computes them, in dim order. Returns nullopt if the shards are not
// consecutive in the order of the spec's axes.
[[nodiscard]] std::optional<std::vector<DimOffsets>> offsets_of(std::span<const int64_t> shape,
                                                                const Sharding& sharding, const Mesh& mesh,
                                                                SliceFunction slice = shard_slice);

// Returns the intervals of the dim that a rank holds.
[[nodiscard]] std::vector<Interval> rank_intervals(const DimOffsets& offsets, int64_t rank);

}  // namespace tpplan
