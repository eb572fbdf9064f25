// A second derivation of the intervals that a rank holds: from placements, in the order in which torch applies them. It
// shares no code with shard_slice, coordinate_of and chunk, which are checked against it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sharding/placement.h"
#include "sharding/rank_offsets.h"

namespace tpplan {

// Returns the intervals of dim `dim` that `rank` holds, without empty ones, adjacent ones joined. Each mesh axis, from
// the left, shards the result of the axes before it; a StridedShard shards each of `split_factor` parts separately
// (torch 2.13, _StridedShard). Uses the spec for dims that placements do not determine: those with segments, and those
// with shards of different sizes.
[[nodiscard]] std::vector<Interval> placed_intervals(std::span<const int64_t> shape, const Sharding& sharding,
                                                     std::span<const Placement> placements, const Mesh& mesh,
                                                     size_t dim, int64_t rank);

// Describes the first dim in which `slice` and the placements assign different intervals to the rank; empty if there is
// none.
[[nodiscard]] std::string placement_mismatch(std::span<const int64_t> shape, const Sharding& sharding, const Mesh& mesh,
                                             int64_t rank, SliceFunction slice = shard_slice);

// Returns ranks that expose a wrong sharding: the first, the last, and the second one along each axis.
[[nodiscard]] std::vector<int64_t> sample_ranks(const Mesh& mesh);

}  // namespace tpplan
