// The elements that a mesh coordinate holds: a sharding as a function from coordinates to slices.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sharding/partition_spec.h"

namespace tpplan {

// A half-open interval of global indices of one dim.
struct Interval {
  int64_t begin = 0;
  int64_t end = 0;
  bool operator==(const Interval&) const = default;
};

[[nodiscard]] inline int64_t length(const Interval& interval) { return interval.end - interval.begin; }

// Returns chunk `index` of `count` of an interval: chunks of ceil(size / count) elements, the last ones shorter or
// empty (torch.chunk, and DTensor's Shard, torch 2.13). If size % count == 0 all are equal, as in JAX. An empty chunk
// is at the end of the interval.
[[nodiscard]] Interval chunk(Interval global, int64_t count, int64_t index);

// Returns for each dim the global indices that the coordinate holds, in storage order: one interval, or one for each
// segment. Axes shard one after the other, major first. `coordinate` has one entry for each mesh axis.
// @post over all coordinates of the axes in the spec, the slices tile the tensor: every element exactly once.
[[nodiscard]] std::vector<std::vector<Interval>> shard_slice(std::span<const int64_t> shape, const Sharding& sharding,
                                                             const Mesh& mesh, std::span<const int64_t> coordinate);

// Returns the local shape: for each dim the number of indices in shard_slice.
[[nodiscard]] std::vector<int64_t> local_shape(std::span<const int64_t> shape, const Sharding& sharding,
                                               const Mesh& mesh, std::span<const int64_t> coordinate);

// True if every coordinate has the same local shape: the axes of each sharded dim divide its size, or each segment.
[[nodiscard]] bool is_even(std::span<const int64_t> shape, const Sharding& sharding, const Mesh& mesh);

}  // namespace tpplan
