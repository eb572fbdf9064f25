// Redistribution: the only code that derives collectives from the layouts before and after.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sharding/placement.h"

namespace tpplan {

enum class CollectiveKind : uint8_t { AllGather, AllReduce, ReduceScatter, AllToAll, LocalSlice };

// One step over one mesh axis. `dim` is gathered, scattered or sliced (negative: from the end, as in the layouts);
// `from_dim` is the dim that an all_to_all gathers.
struct Collective {
  CollectiveKind kind{};
  AxisId axis = kNoAxis;
  int dim = 0;
  int from_dim = 0;
  bool operator==(const Collective&) const = default;
};

// Pads the input shape of a reduce_scatter or all_to_all until all shards have equal sizes, as DTensor does
// (torch 2.13, placement_types.py, _reduce_shard_tensor and _pad_for_new_shard_dim).
void pad_shards(std::span<int64_t> shape, const Collective& collective, int64_t ranks);

// Returns "all_gather", "all_reduce", "reduce_scatter", "all_to_all" or "slice".
[[nodiscard]] std::string_view to_text(CollectiveKind kind);

// Parses the output of to_text. Returns false for any other text.
[[nodiscard]] bool find_collective(std::string_view text, CollectiveKind& kind);

// Returns the human-readable form: "all_reduce over tp", "all_gather dim 0 over tp", "all_to_all dim 0 to 1 over tp".
[[nodiscard]] std::string to_text(const Collective& collective, const Mesh& mesh);

// Returns the steps of a redistribution: S->R all_gather, P->R all_reduce, P->S reduce_scatter, S(a)->S(b) all_to_all,
// R->S slice (no communication), equal layouts nothing. Sharded axes are undone from the last to the first, so that the
// minor axis of a dim is gathered before the major one; all other steps are in mesh order. An axis whose dim gets
// another major axis is gathered first and sharded again (torch 2.13,
// DTensorRedistributePlanner.generate_greedy_transform_infos). Returns nullopt for a redistribution to Partial, which
// torch rejects. @pre a dim has one spelling in both layouts: -1 or ndim-1
[[nodiscard]] std::optional<std::vector<Collective>> redistribute(std::span<const Placement> from,
                                                                  std::span<const Placement> to);

// Returns the placement of the step's axis after the step: Replicate, or Shard(dim).
[[nodiscard]] Placement placement_after(const Collective& collective);
// Returns the placement of the step's axis after the step of a redistribution to `target`: Replicate if the axis is
// gathered or reduced before it is sharded again.
[[nodiscard]] Placement placement_after(const Collective& collective, std::span<const Placement> target);

}  // namespace tpplan
