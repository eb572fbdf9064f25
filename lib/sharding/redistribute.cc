#include "sharding/redistribute.h"

#include <algorithm>

namespace tpplan {

std::string_view to_text(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::AllGather:
      return "all_gather";
    case CollectiveKind::AllReduce:
      return "all_reduce";
    case CollectiveKind::ReduceScatter:
      return "reduce_scatter";
    case CollectiveKind::AllToAll:
      return "all_to_all";
    case CollectiveKind::LocalSlice:
      return "slice";
  }
  return "";
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

// True when the axes to the left of `axis` cut the dim that `axis` shall cut in the same way now as they do in the end.
bool cut_alike_before(const std::vector<Placement>& current, std::span<const Placement> to, size_t axis) {
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
  if (std::any_of(from.begin(), from.end(), is_shard)) {
    for (size_t i = from.size(); i-- > 0;) change(i, cut_alike_before(current, to, i) ? to[i] : Placement{});
  }
  for (size_t i = 0; i < from.size(); ++i) change(i, to[i]);
  return steps;
}

std::vector<Collective> redistribute_gradient(std::span<const Placement> from, std::span<const Placement> arriving) {
  std::vector<Placement> target(from.begin(), from.end());
  for (Placement& placement : target) {
    if (placement.kind == PlacementKind::Partial) placement = {};
  }
  return *redistribute(arriving, target);
}

}  // namespace tpplan
