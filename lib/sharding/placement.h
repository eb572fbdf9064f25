// A sharding seen from the mesh: one placement for each axis, as torch's DTensor writes it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sharding/partition_spec.h"

namespace tpplan {

enum class PlacementKind : uint8_t { Replicate, Shard, StridedShard, Partial };
// A plan can write the first four. DTensor norms and masked embedding lookups have partial results of the last two.
enum class ReduceOp : uint8_t { Sum, Avg, Max, Min, Norm, Mask };

struct Placement {
  PlacementKind kind = PlacementKind::Replicate;
  int dim = 0;                  // Shard, StridedShard; a layout of a plan may count from the end (-1)
  int64_t split_factor = 1;     // StridedShard
  ReduceOp op = ReduceOp::Sum;  // Partial
  bool operator==(const Placement&) const = default;
};

[[nodiscard]] inline bool is_shard(const Placement& p) {
  return p.kind == PlacementKind::Shard || p.kind == PlacementKind::StridedShard;
}

// Returns "Replicate", "Shard(0)", "StridedShard(0, 4)", "Partial(sum)" and so on.
[[nodiscard]] std::string to_text(const Placement& placement);

// Returns text such as "[Replicate, Shard(0)]", with one placement for each mesh axis.
[[nodiscard]] std::string to_text(std::span<const Placement> placements);

// Parses the output of to_text for one placement, and "Partial", "Replicate()" and "Partial()" as torch users write
// them.
[[nodiscard]] bool parse_placement(std::string_view text, Placement& placement);

// Returns the placements of a sharding in mesh order. An axis that shards a dim after an axis to its right in the mesh
// is a StridedShard whose split factor is the product of those axes (torch 2.13, torch/distributed/tensor/_utils.py:
// FSDP after tp). An axis that alone shards a dim of k segments is StridedShard(dim, k) (transformers 5.23, packed
// styles). Returns nullopt if torch has no such placement: segments that torch.chunk does not produce.
[[nodiscard]] std::optional<std::vector<Placement>> placements_of(const Sharding& sharding, const Mesh& mesh);

// Returns the placements of a spec without regard to segments: an axis of a fused dim is a Shard.
[[nodiscard]] std::vector<Placement> plain_placements(const PartitionSpec& spec, const Mesh& mesh);

// Computes the spec of `ndim` dims that has these placements, in the order in which torch applies them: mesh order, but
// a StridedShard axis is minor to the axes to its right whose product is its split factor. Returns false for Partial,
// for a dim out of range, and for a split factor that is no such product.
// @post spec_of(*placements_of({spec, {}}, mesh), ...) == spec for every legal spec over axes of size 2 and more
[[nodiscard]] bool spec_of(std::span<const Placement> placements, const Mesh& mesh, size_t ndim, PartitionSpec& spec);

}  // namespace tpplan
