#include "sharding/redistribute.h"

#include <algorithm>
#include <iterator>

namespace tpplan {

namespace {

constexpr std::string_view kNames[] = {"all_gather", "all_reduce", "reduce_scatter", "all_to_all", "slice"};
static_assert(std::size(kNames) == static_cast<size_t>(CollectiveKind::LocalSlice) + 1);

}  // namespace

void pad_shards(std::span<int64_t> shape, const Collective& collective, int64_t ranks) {
  const bool cuts = collective.kind == CollectiveKind::ReduceScatter || collective.kind == CollectiveKind::AllToAll;
  const auto dim = static_cast<size_t>(collective.dim);
  if (cuts && dim < shape.size()) shape[dim] = (shape[dim] + ranks - 1) / ranks * ranks;
}

std::string_view to_text(CollectiveKind kind) { return kNames[static_cast<size_t>(kind)]; }

bool find_collective(std::string_view text, CollectiveKind& kind) {
  const auto* found = std::ranges::find(kNames, text);
  if (found == std::end(kNames)) return false;
  kind = static_cast<CollectiveKind>(found - std::begin(kNames));
  return true;
}

std::string to_text(const Collective& collective, const Mesh& mesh) {
  std::string text(to_text(collective.kind));
  if (collective.kind == CollectiveKind::AllToAll)
    text += " dim " + std::to_string(collective.from_dim) + " to " + std::to_string(collective.dim);
  else if (collective.kind != CollectiveKind::AllReduce)
    text += " dim " + std::to_string(collective.dim);
  return text + " over " + axis_name(mesh, collective.axis);
}

namespace {

Collective collective_of(AxisId axis, const Placement& from, const Placement& to) {
  if (from.kind == PlacementKind::Partial) {
    return is_shard(to) ? Collective{.kind = CollectiveKind::ReduceScatter, .axis = axis, .dim = to.dim}
                        : Collective{.kind = CollectiveKind::AllReduce, .axis = axis};
  }
  if (is_shard(from) && is_shard(to))
    return {.kind = CollectiveKind::AllToAll, .axis = axis, .dim = to.dim, .from_dim = from.dim};
  if (is_shard(from)) return {.kind = CollectiveKind::AllGather, .axis = axis, .dim = from.dim};
  return {.kind = CollectiveKind::LocalSlice, .axis = axis, .dim = to.dim};
}

// True if the axes to the left of `axis` shard its target dim now as they will in the end. Axes shard a dim one after
// the other, the left one into the larger shards, so the shards of `axis` are in their final place only if nothing
// changes to its left.
bool is_sharded_identically_before(const std::vector<Placement>& current, std::span<const Placement> to, size_t axis) {
  if (to[axis].kind != PlacementKind::Shard) return true;
  const auto cuts = [&](const Placement& p) { return p.kind == PlacementKind::Shard && p.dim == to[axis].dim; };
  for (size_t i = 0; i < axis; ++i) {
    if (cuts(current[i]) != cuts(to[i])) return false;
  }
  return true;
}

}  // namespace

std::optional<std::vector<Collective>> redistribute(std::span<const Placement> from, std::span<const Placement> to) {
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] != to[i] && to[i].kind == PlacementKind::Partial) return std::nullopt;
  }
  std::vector<Collective> steps;
  std::vector<Placement> current(from.begin(), from.end());
  const auto change = [&](size_t axis, const Placement& target) {
    if (current[axis] != target) steps.push_back(collective_of(static_cast<AxisId>(axis), current[axis], target));
    current[axis] = target;
  };
  // Right to left: a minor axis can be gathered while the major axis still shards the dim, not vice versa. An axis that
  // reaches its target here has one step; another is gathered here and sharded below.
  const auto undo = [&](size_t i) { change(i, is_sharded_identically_before(current, to, i) ? to[i] : Placement{}); };
  if (std::any_of(from.begin(), from.end(), is_shard)) {
    for (size_t i = from.size(); i-- > 0;) {
      // A StridedShard to the left is the minor one of the two axes.
      for (size_t j = i; is_shard(current[i]) && current[i] != to[i] && j-- > 0;) {
        if (current[j].kind == PlacementKind::StridedShard && current[j].dim == current[i].dim) undo(j);
      }
      undo(i);
    }
  }
  // Left to right: each axis shards the result of the axes before it.
  for (size_t i = 0; i < from.size(); ++i) change(i, to[i]);
  return steps;
}

Placement placement_after(const Collective& collective) {
  const bool whole = collective.kind == CollectiveKind::AllGather || collective.kind == CollectiveKind::AllReduce;
  return whole ? Placement{} : Placement{.kind = PlacementKind::Shard, .dim = collective.dim};
}

Placement placement_after(const Collective& collective, std::span<const Placement> target) {
  const Placement after = placement_after(collective);
  return is_shard(after) ? target[collective.axis] : after;
}

}  // namespace tpplan
