#include "infer/resolve_ties.h"

#include <spdlog/fmt/fmt.h>

namespace tpplan {
namespace {

void report_split_tie(const TpPlan& plan, const ModelGraph& graph, const ShardingTable& table, const Tie& tie, ParamId leader,
                      ParamId other, bool fatal, Diagnostics& diagnostics) {
  const ParamId ruled = table.params[other].rule != kNoRule ? other : leader;
  const RuleId rule = table.params[ruled].rule;
  Diagnostic* d = report(diagnostics, fatal ? Code::TP5011 : Code::TP5012, rule == kNoRule ? Span{} : plan.rules[rule].value_span,
                         fmt::format("{}/{}", leader, other));
  if (d == nullptr) return;
  const auto spec_text = [&](ParamId id) { return to_text(sharding_of(table, id).spec, plan.mesh); };
  d->message = fmt::format("`{}` and `{}` are one tensor, sharded {} and {}", path_of(graph, graph.params[leader]),
                           path_of(graph, graph.params[other]), spec_text(leader), spec_text(other));
  d->notes.push_back({"tied here", {Source::Model, tie.offset, 1}});
  if (!fatal) d->notes.push_back({fmt::format("{} makes two parameters of them, which then train apart", to_text(plan.dialect)), {}});
  d->help = fatal ? "give both the same sharding, or only one of them a rule: the other follows"
                  : "shard both ends alike: colwise on the head cuts the vocabulary as embedding_rowwise (torch: rowwise) does";
}

}  // namespace

void resolve_ties(const TpPlan& plan, const ModelGraph& graph, ShardingTable& table, Diagnostics& diagnostics) {
  const bool follows_framework = plan.dialect == Dialect::Torch || plan.dialect == Dialect::Transformers;
  for (const Tie& tie : graph.ties) {
    ParamId leader = tie.params[0];
    for (const ParamId id : tie.params) {
      if (table.params[leader].rule == kNoRule) leader = id;
    }
    for (const ParamId id : tie.params) {
      if (id == leader) continue;
      const bool may_follow = !follows_framework && table.params[id].rule == kNoRule && table.params[leader].rule != kNoRule;
      if (may_follow) table.params[id] = {.sharding = table.params[leader].sharding, .rule = table.params[leader].rule, .reason = Reason::Tied};
      if (table.params[id].sharding == table.params[leader].sharding) table.followers.emplace_back(id, leader);
      else report_split_tie(plan, graph, table, tie, leader, id, !follows_framework, diagnostics);
    }
  }
}

}  // namespace tpplan
