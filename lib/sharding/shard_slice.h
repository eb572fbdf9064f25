// Which elements a mesh coordinate holds: a sharding as a function from coordinates to slices.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sharding/partition_spec.h"

namespace tpplan {

// Half-open run of global indices of one dim.
struct Interval {
  int64_t begin = 0;
  int64_t end = 0;
  bool operator==(const Interval&) const = default;
};

[[nodiscard]] inline int64_t length(const Interval& interval) { return interval.end - interval.begin; }

// Piece `index` of `count` as torch.chunk cuts it: pieces of ceil(size / count), the last ones shorter or empty
// (torch.chunk, and DTensor's Shard, torch 2.13). With size % count == 0 all pieces are equal, as in JAX.
// An empty piece stands at the end of the run.
[[nodiscard]] Interval chunk(Interval whole, int64_t count, int64_t index);

// For each dim the runs of global indices that the coordinate holds, in storage order: one run, or one for each
// segment. Axes cut one after the other, major first. `coordinate` has one entry for each mesh axis.
// @post over all coordinates of the axes in the spec, the slices tile the tensor: every element exactly once.
[[nodiscard]] std::vector<std::vector<Interval>> shard_slice(std::span<const int64_t> shape, const Sharding& sharding,
                                                             const Mesh& mesh, std::span<const int64_t> coordinate);

// Sizes of that slice: for each dim the sum of its runs.
[[nodiscard]] std::vector<int64_t> local_shape(std::span<const int64_t> shape, const Sharding& sharding,
                                               const Mesh& mesh, std::span<const int64_t> coordinate);

// True when every coordinate holds the same shape: each cut dim (each segment of it) divides by the product of its
// axes.
[[nodiscard]] bool is_even(std::span<const int64_t> shape, const Sharding& sharding, const Mesh& mesh);

}  // namespace tpplan
