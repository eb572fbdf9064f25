#include "resolve/infer/sharding_table.h"

#include <spdlog/fmt/fmt.h>

#include "sharding/tensor_size.h"

namespace tpplan {

// The bytes 0xff and 0xfe are separators in the key: every axis is a byte below kMaxAxes.
uint32_t intern(ShardingTable& table, const Sharding& sharding) {
  std::string key;
  for (const DimAxes& axes : sharding.spec) {
    key.append(reinterpret_cast<const char*>(axes.data()), axes.size());
    key += '\xff';
  }
  for (const DimSegments& segments : sharding.segments) {
    key += '\xfe' + std::to_string(segments.dim);
    for (const int64_t size : segments.sizes) key += "," + std::to_string(size);
  }
  const auto [known, is_new] = table.index.try_emplace(std::move(key), static_cast<uint32_t>(table.shardings.size()));
  if (is_new) table.shardings.push_back(sharding);
  return known->second;
}

Sharding sharding_by_rule(const ShardingTable& table, const TpPlan& plan, ParamId param) {
  Sharding sharding = sharding_of(table, param);
  if (table.params[param].fsdp != FsdpDecision::Sharded) return sharding;
  for (DimAxes& axes : sharding.spec) std::erase(axes, plan.fsdp->axis);
  return sharding;
}

std::string_view to_text(Reason reason) {
  static constexpr std::string_view names[] = {"default", "rule", "fsdp", "rule+fsdp", "tied"};
  static_assert(std::size(names) == static_cast<size_t>(Reason::Tied) + 1);
  return names[static_cast<size_t>(reason)];
}

std::string dump(const ShardingTable& table, const TpPlan& plan, const ModelGraph& graph) {
  std::string out;
  for (ParamId id = 0; id < table.params.size(); ++id) {
    const ParamSharding& param = table.params[id];
    const Sharding& sharding = table.shardings[param.sharding];
    out += fmt::format("{}: {} {}", path_of(graph, graph.params[id]), to_text(sharding.spec, plan.mesh),
                       to_text(param.reason));
    for (const DimSegments& segments : sharding.segments)
      out += fmt::format(" segments {}: {}", segments.dim, shape_text(segments.sizes));
    if (param.rule != kNoRule) out += fmt::format(" by {}", plan.rules[param.rule].key);
    out += '\n';
  }
  return out;
}

}  // namespace tpplan
