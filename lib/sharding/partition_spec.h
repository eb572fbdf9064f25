// How a tensor is cut: per dim the mesh axes that cut it, major to minor, and the seams of fused dims.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sharding/mesh.h"

namespace tpplan {

// Mesh axes over which one dim is cut, major to minor; empty: not cut.
using DimAxes = std::vector<AxisId>;

// One entry a dim (JAX's PartitionSpec, always written out to the number of dims).
using PartitionSpec = std::vector<DimAxes>;

// A fused dim (q|k|v, gate|up): consecutive segments of these sizes, each of which is cut by itself, so that a rank
// holds a run of every segment. The sizes add up to the dim.
struct DimSegments {
  size_t dim = 0;
  std::vector<int64_t> sizes;
  bool operator==(const DimSegments&) const = default;
};

// Everything that decides which elements a mesh coordinate holds, but for the shape.
struct Sharding {
  PartitionSpec spec;
  std::vector<DimSegments> segments;  // ordered by dim; only dims that are cut
  bool operator==(const Sharding&) const = default;
};

[[nodiscard]] inline PartitionSpec replicated_spec(size_t ndim) { return PartitionSpec(ndim); }
// Whether it names no axis; whether every rank of this mesh holds all, which is also so where all axes that it names
// have size 1.
[[nodiscard]] bool is_replicated(const PartitionSpec& spec);
[[nodiscard]] bool is_whole(const PartitionSpec& spec, const Mesh& mesh);
[[nodiscard]] bool uses_axis(const PartitionSpec& spec, AxisId axis);

// A spec without one of its axes.
[[nodiscard]] PartitionSpec without_axis(PartitionSpec spec, AxisId axis);

// Segment sizes of a dim, empty when it has none.
[[nodiscard]] std::span<const int64_t> segments_of(const Sharding& sharding, size_t dim);

// Product of the sizes of the axes that cut a dim, or over all dims.
[[nodiscard]] int64_t shard_count(const DimAxes& axes, const Mesh& mesh);
[[nodiscard]] int64_t shard_count(const PartitionSpec& spec, const Mesh& mesh);

// As a plan writes them, so that what is printed can be written into one: `tp` or, where YAML would take the name for
// something else, `"no"`; an entry `null`, `tp` or `[tp, fsdp]`; a spec `[null, [tp, fsdp]]`.
[[nodiscard]] std::string axis_text(std::string_view name);
[[nodiscard]] std::string to_text(const DimAxes& axes, const Mesh& mesh);
[[nodiscard]] std::string to_text(const PartitionSpec& spec, const Mesh& mesh);

}  // namespace tpplan
