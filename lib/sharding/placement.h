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
// A plan may write the first four; norms and masked lookups leave open results of their own kinds in DTensors.
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

// "Replicate", "Shard(0)", "StridedShard(0, 4)", "Partial(sum)".
[[nodiscard]] std::string to_text(const Placement& placement);

// "[Replicate, Shard(0)]": one for each mesh axis.
[[nodiscard]] std::string to_text(std::span<const Placement> placements);

// Reads what to_text writes of one, and "Partial", "Replicate()" and "Partial()" as torch users write them.
[[nodiscard]] bool parse_placement(std::string_view text, Placement& placement);

// The placements of a sharding in mesh order. An axis that cuts a dim after an axis to the right of it in the mesh is a
// StridedShard whose split factor is the product of those axes (torch 2.13, torch/distributed/tensor/_utils.py: FSDP
// after tp); an axis that alone cuts a dim of k segments is StridedShard(dim, k) (transformers 5.23, packed styles).
// Empty when torch has no word for it: segments that are not torch.chunk's pieces of the dim.
[[nodiscard]] std::optional<std::vector<Placement>> placements_of(const Sharding& sharding, const Mesh& mesh);

// The same of a spec whose segments, if it has any, are cut each by itself: Shard, whatever torch calls it.
[[nodiscard]] std::vector<Placement> plain_placements(const PartitionSpec& spec, const Mesh& mesh);

// The spec of `ndim` dims with these placements, in the order that torch applies them: mesh order, but a StridedShard
// axis after (minor to) the axes to its right whose sizes make up its split factor. False for Partial, for a dim out of
// range, for a split factor that no such axes make up.
// @post spec_of(*placements_of({spec, {}}, mesh), ...) == spec for every legal spec over axes of size 2 and more
[[nodiscard]] bool spec_of(std::span<const Placement> placements, const Mesh& mesh, size_t ndim, PartitionSpec& spec);

}  // namespace tpplan
