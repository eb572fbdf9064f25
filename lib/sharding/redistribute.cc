#include "sharding/redistribute.h"

namespace tpplan {

std::string_view to_text(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::AllGather: return "all_gather";
    case CollectiveKind::AllReduce: return "all_reduce";
    case CollectiveKind::ReduceScatter: return "reduce_scatter";
    case CollectiveKind::AllToAll: return "all_to_all";
    case CollectiveKind::LocalSlice: return "slice";
  }
  return "";
}

std::optional<std::vector<Collective>> redistribute(std::span<const Placement> from, std::span<const Placement> to) {
  std::vector<Collective> steps;
  const auto is_shard = [](const Placement& p) { return p.kind == PlacementKind::Shard || p.kind == PlacementKind::StridedShard; };
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] == to[i]) continue;
    const auto axis = static_cast<AxisId>(i);
    if (to[i].kind == PlacementKind::Partial) return std::nullopt;
    if (from[i].kind == PlacementKind::Partial) {
      const bool scatter = is_shard(to[i]);
      steps.push_back({.kind = scatter ? CollectiveKind::ReduceScatter : CollectiveKind::AllReduce, .axis = axis, .dim = scatter ? to[i].dim : 0});
    } else if (is_shard(from[i]) && is_shard(to[i])) {
      steps.push_back({.kind = CollectiveKind::AllToAll, .axis = axis, .dim = to[i].dim, .from_dim = from[i].dim});
    } else if (is_shard(from[i])) {
      steps.push_back({.kind = CollectiveKind::AllGather, .axis = axis, .dim = from[i].dim});
    } else {
      steps.push_back({.kind = CollectiveKind::LocalSlice, .axis = axis, .dim = to[i].dim});
    }
  }
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
