// What it takes to bring a tensor from one layout to another: the only place that turns layouts into collectives.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sharding/placement.h"

namespace tpplan {

enum class CollectiveKind : uint8_t { AllGather, AllReduce, ReduceScatter, AllToAll, LocalSlice };

// One step over one mesh axis. `dim` is the dim that is gathered, scattered or sliced (may count from the end, as the
// layouts it comes from); `from_dim` is all_to_all's other one.
struct Collective {
  CollectiveKind kind{};
  AxisId axis = kNoAxis;
  int dim = 0;
  int from_dim = 0;
  bool operator==(const Collective&) const = default;
};

// What a rank hands in where it hands out pieces, of `shape`: DTensor pads it until all pieces are as large
// (torch 2.13, placement_types.py, _reduce_shard_tensor and _pad_for_new_shard_dim).
void pad_pieces(std::span<int64_t> shape, const Collective& collective, int64_t ranks);

// "all_gather", "all_reduce", "reduce_scatter", "all_to_all", "slice".
[[nodiscard]] std::string_view to_text(CollectiveKind kind);

// Reads what to_text writes; false for any other text.
[[nodiscard]] bool find_collective(std::string_view text, CollectiveKind& kind);

// A collective as people read it everywhere: "all_reduce over tp", "all_gather dim 0 over tp", "all_to_all dim 0 to 1
// over tp".
[[nodiscard]] std::string to_text(const Collective& collective, const Mesh& mesh);

// The steps: S->R all_gather, P->R all_reduce, P->S reduce_scatter, S(a)->S(b) all_to_all, R->S slice (no
// communication), equal layouts nothing. Axes go in mesh order, but where something is cut already from the last to the
// first, so that the inner one of two cuts of a dim is undone before the outer one; an axis whose dim is cut otherwise
// before it in the end is gathered first and cut again (torch 2.13,
// DTensorRedistributePlanner.generate_greedy_transform_infos). Empty optional for a redistribution to Partial, which is
// an error there and here. Dims -1 and ndim-1 of one tensor must be written alike.
[[nodiscard]] std::optional<std::vector<Collective>> redistribute(std::span<const Placement> from,
                                                                  std::span<const Placement> to);

// The layout of the step's axis once it is done: Replicate, or Shard(dim).
[[nodiscard]] Placement placement_after(const Collective& collective);
// The same on the way to a layout: where something is gathered or summed before it is cut again, the axis is whole in
// between.
[[nodiscard]] Placement placement_after(const Collective& collective, std::span<const Placement> target);

// The steps that carry the gradient back through a redistribution that started at `from`. `arriving` is the layout in
// which the gradient comes back: the redistribution's target, with Partial on the axes over which the consumer leaves
// sums open (a colwise product does). The gradient of a Partial value is the same on every rank, so it returns as
// Replicate (torch 2.13, Redistribute.backward).
[[nodiscard]] std::vector<Collective> redistribute_gradient(std::span<const Placement> from,
                                                            std::span<const Placement> arriving);

}  // namespace tpplan
