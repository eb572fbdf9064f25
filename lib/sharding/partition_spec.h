// How a tensor is sharded: for each dim its mesh axes, major to minor, and the segments of fused dims.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sharding/mesh.h"

namespace tpplan {

// The mesh axes that shard one dim, major to minor; empty if it is not sharded.
using DimAxes = std::vector<AxisId>;

// One entry a dim (JAX's PartitionSpec, always written out to the number of dims).
using PartitionSpec = std::vector<DimAxes>;

// A fused dim (q|k|v, gate|up): consecutive segments of these sizes. Each segment is sharded separately, so that a rank
// holds an interval of every segment. The sizes add up to the dim.
struct DimSegments {
  size_t dim = 0;
  std::vector<int64_t> sizes;
  bool operator==(const DimSegments&) const = default;
};

// Together with the shape, determines which elements a mesh coordinate holds.
struct Sharding {
  PartitionSpec spec;
  std::vector<DimSegments> segments;  // ordered by dim; only sharded dims
  bool operator==(const Sharding&) const = default;
};

[[nodiscard]] inline PartitionSpec replicated_spec(size_t ndim) { return PartitionSpec(ndim); }
// is_replicated: true if the spec names no axis. is_fully_replicated: true if every rank of this mesh holds the full
// tensor; axes of size 1 do not shard it.
[[nodiscard]] bool is_replicated(const PartitionSpec& spec);
[[nodiscard]] bool is_fully_replicated(const PartitionSpec& spec, const Mesh& mesh);
[[nodiscard]] bool uses_axis(const PartitionSpec& spec, AxisId axis);

// Returns the spec without one of its axes.
[[nodiscard]] PartitionSpec without_axis(PartitionSpec spec, AxisId axis);

// Returns the segment sizes of a dim; empty if it has no segments.
[[nodiscard]] std::span<const int64_t> segments_of(const Sharding& sharding, size_t dim);

// Returns the product of the sizes of the axes of one dim, or of all dims.
[[nodiscard]] int64_t shard_count(const DimAxes& axes, const Mesh& mesh);
[[nodiscard]] int64_t shard_count(const PartitionSpec& spec, const Mesh& mesh);

// Return text that can be copied into a plan: `tp`, quoted if YAML would read another type (`"no"`); for an entry
// `null`, `tp` or `[tp, fsdp]`; for a spec `[null, [tp, fsdp]]`.
[[nodiscard]] std::string axis_text(std::string_view name);
[[nodiscard]] std::string to_text(const DimAxes& axes, const Mesh& mesh);
[[nodiscard]] std::string to_text(const PartitionSpec& spec, const Mesh& mesh);

}  // namespace tpplan
