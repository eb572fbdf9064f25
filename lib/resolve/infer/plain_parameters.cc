#include "resolve/infer/plain_parameters.h"

namespace tpplan {

std::vector<ParamId> plain_parameters(const TpPlan& plan, const ModelGraph& graph, const MatchTable& matches,
                                      const ShardingTable& table) {
  if (!plan.dialect->follows_framework || plan.fsdp) return {};
  std::vector<bool> wraps(graph.modules.size());  // the module's style makes DTensors of all its parameters
  for (const BoundaryMatch& match : matches.boundaries) {
    const StyleRow* style = plan.rules[match.rule].style;
    if (style != nullptr && (style->wraps_parameters || style->once_per_module)) wraps[match.module] = true;
  }
  std::vector<ParamId> plain;
  for (ParamId id = 0; id < graph.params.size(); ++id) {
    const RuleId rule = table.params[id].rule;
    const StyleRow* style = rule == kNoRule ? nullptr : plan.rules[rule].style;
    const bool is_sharded_param =
        !is_replicated(sharding_of(table, id).spec) || (style != nullptr && !style->shard_dim.empty());
    if (!is_sharded_param && !wraps[graph.params[id].module]) plain.push_back(id);
  }
  return plain.size() == graph.params.size() ? std::vector<ParamId>{} : plain;
}

}  // namespace tpplan
