// Where every rank's pieces of a tensor begin, in numbers alone: without a word of axes, coordinates or cuts, so that
// they can be held against what is derived from these in other ways.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sharding/shard_slice.h"

namespace tpplan {

// A rank's index along one axis is rank / stride % count, and each of them moves its piece by `pieces`.
struct RankLevel {
  int64_t stride = 1, count = 1, pieces = 1;
  bool operator==(const RankLevel&) const = default;
};

// So many pieces of this length, one behind the other.
struct PieceRun {
  int64_t count = 0, length = 0;
  bool operator==(const PieceRun&) const = default;
};

// One cut dim: the number of a rank's piece is the sum over `ranks`; of each segment (the whole dim, where it has none)
// the pieces in their order, from its first index to its last.
struct DimOffsets {
  size_t dim = 0;
  std::vector<RankLevel> ranks;
  std::vector<std::vector<PieceRun>> runs;
  bool operator==(const DimOffsets&) const = default;
};

// What shard_slice is; tests have wrong ones.
using SliceFunction = std::vector<std::vector<Interval>> (*)(std::span<const int64_t>, const Sharding&, const Mesh&,
                                                             std::span<const int64_t>);

// The offsets of each cut dim as `slice` cuts it, in dim order. Nothing where they cannot be said so: its pieces do not
// stand one behind the other in the order of the spec's axes.
[[nodiscard]] std::optional<std::vector<DimOffsets>> offsets_of(std::span<const int64_t> shape,
                                                                const Sharding& sharding, const Mesh& mesh,
                                                                SliceFunction slice = shard_slice);

// The runs of the dim that a rank holds.
[[nodiscard]] std::vector<Interval> runs_of(const DimOffsets& offsets, int64_t rank);

}  // namespace tpplan
