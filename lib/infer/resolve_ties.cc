#include "infer/resolve_ties.h"

#include <spdlog/fmt/fmt.h>

namespace tpplan {
namespace {

void report_split_tie(const TpPlan& plan, const ModelGraph& graph, const ShardingTable& table, const Tie& tie,
                      ParamId leader, ParamId other, bool fatal, bool may_be_one, Diagnostics& diagnostics) {
  const ParamId ruled = table.params[other].rule != kNoRule ? other : leader;
  const RuleId rule = table.params[ruled].rule;
  Diagnostic* d = report(diagnostics, fatal ? Code::TP5011 : Code::TP5012,
                         rule == kNoRule ? Span{} : plan.rules[rule].value_span, fmt::format("{}/{}", leader, other));
  if (d == nullptr) return;
  const auto spec_text = [&](ParamId id) { return to_text(sharding_of(table, id).spec, plan.mesh); };
  d->message = fmt::format("`{}` and `{}` are one tensor, sharded {} and {}", path_of(graph, graph.params[leader]),
                           path_of(graph, graph.params[other]), spec_text(leader), spec_text(other));
  d->notes.push_back({"tied here", {graph.file, tie.offset, 1}});
  if (may_be_one)
    d->notes.push_back({"if their modules are one module under two paths, torch shards it under both", {}});
  else if (!fatal)
    d->notes.push_back(
        {fmt::format("{} makes two parameters of them, which then train apart", plan.dialect->name), {}});
  d->help =
      fatal
          ? "give both the same sharding, or only one of them a rule: the other follows"
          : "shard both ends alike: colwise on the head cuts the vocabulary as embedding_rowwise (torch: rowwise) does";
}

// Whether two tensors that are tied belong to what may be one module under two paths: of one type, and tied in all
// parameters. A model file ties parameters, and has no word for modules.
bool may_be_one_module(const ModelGraph& graph, const std::vector<uint32_t>& tie_of, ParamId a, ParamId b) {
  const Module& one = graph.modules[graph.params[a].module];
  const Module& other = graph.modules[graph.params[b].module];
  if (one.path == other.path || one.type != other.type || one.param_count != other.param_count) return false;
  for (uint32_t i = 0; i < one.param_count; ++i) {
    const ParamId first = one.first_param + i, second = other.first_param + i;
    if (tie_of[first] == kNone || tie_of[first] != tie_of[second] ||
        graph.params[first].name != graph.params[second].name)
      return false;
  }
  return true;
}

// torch distributes a module once, whatever the paths under which it is found.
void warn_distributed_twice(const TpPlan& plan, const ModelGraph& graph, const ShardingTable& table, const Tie& tie,
                            ParamId a, ParamId b, Diagnostics& diagnostics) {
  const RuleId first = table.params[a].rule, second = table.params[b].rule;
  if (first == kNoRule || second == kNoRule) return;
  const auto distributes = [&](RuleId id) {
    return plan.rules[id].style != nullptr && plan.rules[id].style->once_per_module;
  };
  if (!distributes(first) || !distributes(second)) return;
  const Module& one = graph.modules[graph.params[a].module];
  const Module& other = graph.modules[graph.params[b].module];
  Diagnostic* d =
      report(diagnostics, Code::TP5012, plan.rules[second].key_span, fmt::format("{}/{}", one.path, other.path));
  if (d == nullptr) return;
  d->message =
      fmt::format("`{}` and `{}` share all their parameters, and both are given a style", one.path, other.path);
  d->counted = "parameter";
  d->notes.push_back({"tied here", {graph.file, tie.offset, 1}});
  d->notes.push_back(
      {"if they are one module under two paths, torch raises \"distribute_module should only be called once on a "
       "module\"",
       {}});
  d->help = "give one of the paths a rule: torch shards the module under both";
}

}  // namespace

void resolve_ties(const TpPlan& plan, const ModelGraph& graph, ShardingTable& table, Diagnostics& diagnostics) {
  const bool follows_framework = plan.dialect->follows_framework;
  const bool modules_matter = plan.dialect->distributes_modules_once && !graph.ties.empty();
  std::vector<uint32_t> tie_of(modules_matter ? graph.params.size() : 0, kNone);
  for (uint32_t i = 0; !tie_of.empty() && i < graph.ties.size(); ++i) {
    for (const ParamId id : graph.ties[i].params) tie_of[id] = i;
  }
  for (const Tie& tie : graph.ties) {
    // The first end that a rule decides which fits it, else that any rule does. Where no rule does, all ends are alike,
    // and any may lead.
    const auto worth = [&](ParamId id) { return table.params[id].rule == kNoRule ? 0 : table.params[id].fits ? 2 : 1; };
    ParamId leader = tie.params[0];
    for (const ParamId id : tie.params) {
      if (worth(id) > worth(leader)) leader = id;
    }
    for (const ParamId id : tie.params) {
      if (id == leader) continue;
      const bool may_be_one = !tie_of.empty() && may_be_one_module(graph, tie_of, leader, id);
      if (may_be_one) warn_distributed_twice(plan, graph, table, tie, leader, id, diagnostics);
      const bool may_follow =
          !follows_framework && table.params[id].rule == kNoRule && table.params[leader].rule != kNoRule;
      if (may_follow)
        table.params[id] = {
            .sharding = table.params[leader].sharding, .rule = table.params[leader].rule, .reason = Reason::Tied};
      // apply_fsdp cuts leaders alone, and gives followers what it made of them: one tensor is never cut in two ways.
      if (table.params[id].sharding == table.params[leader].sharding)
        table.followers.emplace_back(id, leader);
      else if (table.params[id].fits && table.params[leader].fits)  // else what is wrong has been said
        report_split_tie(plan, graph, table, tie, leader, id, !follows_framework, may_be_one, diagnostics);
    }
  }
}

}  // namespace tpplan
