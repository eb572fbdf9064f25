#include "resolve/infer/resolve_ties.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "model/name_subject.h"

namespace tpplan {
namespace {

void report_split_tie(const TpPlan& plan, const ModelGraph& graph, const ShardingTable& table, const Tie& tie,
                      ParamId leader, ParamId other, bool fatal, bool may_be_one, Diagnostics& diagnostics) {
  const ParamId ruled = table.params[other].rule != kNoRule ? other : leader;
  const RuleId rule = table.params[ruled].rule;
  Diagnostic* d = report(diagnostics, fatal ? Code::TiedShardingsDiffer : Code::FrameworkBreaksTie,
                         rule == kNoRule ? Span{} : plan.rules[rule].value_span, fmt::format("{}/{}", leader, other));
  if (d == nullptr) return;
  name_subject(*d, graph, graph.params[other]);
  const auto spec_text = [&](ParamId id) { return to_text(sharding_of(table, id).spec, plan.mesh); };
  d->message = fmt::format("`{}` and `{}` are tied to one tensor but sharded differently: {} and {}",
                           path_of(graph, graph.params[leader]), path_of(graph, graph.params[other]), spec_text(leader),
                           spec_text(other));
  d->notes.push_back({"tied here", {graph.file, tie.offset, 1}});
  if (may_be_one)
    d->notes.push_back({"if their modules are one module under two paths, torch shards it under both", {}});
  else if (!fatal)
    d->notes.push_back(
        {fmt::format("{} creates two separate parameters, which then diverge in training", plan.dialect->name), {}});
  d->help = fatal ? "shard both in the same way, or write a rule for only one: the other uses the same sharding"
                  : untied_help(graph, leader, other, false);
}

// Returns the style of the dialect for embeddings that shards this dim; nullptr if there is none.
const StyleRow* embedding_style(const DialectRow& dialect, size_t dim) {
  const auto found = std::ranges::find_if(style_table(), [&](const StyleRow& row) {
    return (row.sets & dialect.styles) != 0 && row.modules == StyleModules::EmbeddingOnly &&
           row.at_more_dims == static_cast<DimPosition>(dim);
  });
  return found == style_table().end() ? nullptr : &*found;
}

// Warns if only one name of a tie has a rule: the other module receives a tensor that it cannot use.
void warn_half_ruled(const TpPlan& plan, const ModelGraph& graph, const ShardingTable& table, const Tie& tie,
                     ParamId owner, ParamId other, Diagnostics& diagnostics) {
  const bool owner_has = table.params[owner].rule != kNoRule;
  const ParamId ruled = owner_has ? owner : other, free = owner_has ? other : owner;
  const PlanRule& rule = plan.rules[table.params[ruled].rule];
  Diagnostic* d = report(diagnostics, Code::FrameworkBreaksTie, rule.value_span, fmt::format("{}/{}", owner, other));
  if (d == nullptr) return;
  name_subject(*d, graph, graph.params[free]);
  const std::string_view module = graph.modules[graph.params[free].module].path;
  d->message = fmt::format("`{}` has a rule, but `{}`, which is tied to it, has none",
                           path_of(graph, graph.params[ruled]), path_of(graph, graph.params[free]));
  d->notes.push_back({"tied here", {graph.file, tie.offset, 1}});
  d->notes.push_back(
      {fmt::format("{} ties after sharding: both are one {}, and a layer raises \"got mixed torch.Tensor "
                   "and DTensor\"",
                   plan.dialect->name, owner_has ? "DTensor" : "plain tensor"),
       {}});
  const PartitionSpec& spec = sharding_of(table, ruled).spec;
  const auto dim = std::ranges::find_if(spec, [](const DimAxes& axes) { return !axes.empty(); });
  const StyleRow* style = graph.modules[graph.params[free].module].kind == ModuleKind::Embedding
                              ? embedding_style(*plan.dialect, static_cast<size_t>(dim - spec.begin()))
                              : nullptr;
  d->help = style == nullptr ? fmt::format("add a rule for `{}`", module)
                             : fmt::format("add `\"{}\": {}`", module, style->name);
}

// True if two tied parameters may belong to one module with two paths: both modules have the same type, and all their
// parameters are tied. A model file records ties of parameters, not of modules.
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

// Warns if both paths of a shared module have a style, because torch distributes a module only once.
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
  Diagnostic* d = report(diagnostics, Code::FrameworkBreaksTie, plan.rules[second].key_span,
                         fmt::format("{}/{}", one.path, other.path));
  if (d == nullptr) return;
  name_subject(*d, other);
  d->message =
      fmt::format("`{}` and `{}` share all their parameters, but rules set a style for both", one.path, other.path);
  d->counted = "parameter";
  d->notes.push_back({"tied here", {graph.file, tie.offset, 1}});
  d->notes.push_back(
      {"if they are one module under two paths, torch raises \"distribute_module should only be called once on a "
       "module\"",
       {}});
  d->help = "write a rule for only one of the paths: torch shards the module under both";
}

// Gives all names of a tie the sharding of the owner. If only one name has a rule, the run fails; then each name keeps
// the sharding that shard_param of its own rule makes.
void share_owner(const TpPlan& plan, const ModelGraph& graph, const Tie& tie, ShardingTable& table,
                 Diagnostics& diagnostics) {
  const ParamId owner = owner_of_tie(graph, tie);
  for (const ParamId id : tie.params) {
    if (id == owner) continue;
    const ParamSharding &of_owner = table.params[owner], &other = table.params[id];
    const bool has_one_rule = (of_owner.rule == kNoRule) != (other.rule == kNoRule);
    if (has_one_rule && of_owner.sharding != other.sharding) {
      warn_half_ruled(plan, graph, table, tie, owner, id, diagnostics);
      continue;
    }
    if (!of_owner.fits || !other.fits) continue;  // the error is already reported
    table.params[id] = {.sharding = of_owner.sharding,
                        .rule = of_owner.rule,
                        .reason = of_owner.rule == kNoRule ? Reason::Default : Reason::Tied};
    table.followers.emplace_back(id, owner);
  }
}

}  // namespace

ParamId owner_of_tie(const ModelGraph& graph, const Tie& tie) {
  const auto found = std::ranges::find_if(
      tie.params, [&](ParamId id) { return graph.modules[graph.params[id].module].kind == ModuleKind::Embedding; });
  return found == tie.params.end() ? tie.params.front() : *found;
}

std::string untied_help(const ModelGraph& graph, ParamId first, ParamId second, bool are_equal) {
  const std::string one = path_of(graph, graph.params[first]), other = path_of(graph, graph.params[second]);
  if (are_equal)
    return fmt::format(
        "tie them again after parallelize_module (`model.{} = model.{}`), or remove both rules: the "
        "tied tensor stays replicated",
        other, one);
  return fmt::format(
      "leave both replicated, without rules for `{}` and `{}`, or shard both in the same way (colwise on "
      "the head, rowwise on the embedding) and tie them again after parallelize_module",
      one, other);
}

void resolve_ties(const TpPlan& plan, const ModelGraph& graph, ShardingTable& table, Diagnostics& diagnostics) {
  const bool follows_framework = plan.dialect->follows_framework;
  const bool modules_matter = plan.dialect->distributes_modules_once && !graph.ties.empty();
  std::vector<uint32_t> tie_of(modules_matter ? graph.params.size() : 0, kNone);
  for (uint32_t i = 0; !tie_of.empty() && i < graph.ties.size(); ++i) {
    for (const ParamId id : graph.ties[i].params) tie_of[id] = i;
  }
  for (const Tie& tie : graph.ties) {
    if (plan.dialect->ties_after_sharding) {
      share_owner(plan, graph, tie, table, diagnostics);
      continue;
    }
    // The leader is the first parameter with a rule that fits, else the first with any rule, else the first.
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
      // apply_fsdp shards only leaders and copies the result to followers, so a tensor has a single sharding.
      if (table.params[id].sharding == table.params[leader].sharding)
        table.followers.emplace_back(id, leader);
      else if (table.params[id].fits && table.params[leader].fits)  // otherwise the error is already reported
        report_split_tie(plan, graph, table, tie, leader, id, !follows_framework, may_be_one, diagnostics);
    }
  }
}

}  // namespace tpplan
