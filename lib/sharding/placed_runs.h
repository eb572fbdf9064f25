// Which runs of a dim a rank holds, derived once more: from placements, as torch applies them, by rank. It shares
// nothing with shard_slice, coordinates of ranks, or chunk: what it is held against.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sharding/placement.h"
#include "sharding/rank_offsets.h"

namespace tpplan {

// The runs of dim `dim` that `rank` holds, without empty ones and neighbours joined: each axis of the mesh, from the
// left, cuts what the ones before it left; a StridedShard each of `split_factor` parts of that (torch 2.13,
// _StridedShard). Where placements say too little, by the spec: of a dim with segments, each of which is cut by itself,
// or one whose pieces are unequal.
[[nodiscard]] std::vector<Interval> placed_runs(std::span<const int64_t> shape, const Sharding& sharding,
                                                std::span<const Placement> placements, const Mesh& mesh, size_t dim,
                                                int64_t rank);

// What `slice` gives the rank and placements do not; empty: they agree.
[[nodiscard]] std::string placing_fault(std::span<const int64_t> shape, const Sharding& sharding, const Mesh& mesh,
                                        int64_t rank, SliceFunction slice = shard_slice);

// The ranks that tell wrong cuts from right ones: the first, the last, and the first along each axis.
[[nodiscard]] std::vector<int64_t> telling_ranks(const Mesh& mesh);

}  // namespace tpplan
