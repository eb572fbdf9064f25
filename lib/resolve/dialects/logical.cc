// The logical dialect: logical axis rules of Flax 0.12 (flax/linen/spmd.py, logical_to_mesh_axes) and MaxText. The
// model names the dims of its arrays, and a rule specifies the mesh axes of a dim name. Rules are tried in plan order.
// A rule applies to a dim of its name without a rule so far, if its axes shard no other dim of the array. Dims without
// a rule are replicated.
#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/text.h"
#include "model/name_subject.h"
#include "resolve/dialects/compare_nnx.h"
#include "resolve/match/decide_dims.h"

namespace tpplan {
namespace {

// Returns the first duplicate name; empty if there is none.
std::string_view name_twice(std::span<const std::string_view> names) {
  for (size_t i = 1; i < names.size(); ++i) {
    if (!names[i].empty() && std::find(names.begin(), names.begin() + static_cast<ptrdiff_t>(i), names[i]) !=
                                 names.begin() + static_cast<ptrdiff_t>(i))
      return names[i];
  }
  return {};
}

void report_name_twice(const ModelGraph& graph, const Param& param, std::string_view name, Diagnostics& diagnostics) {
  Diagnostic* d = report(diagnostics, Code::UnnamedDims, span_of(graph, param), fmt::format("twice/{}", name));
  if (d == nullptr) return;
  name_subject(*d, graph, param);
  d->message = fmt::format("two dims of `{}` have the logical name `{}`", path_of(graph, param), name);
  d->counted = "parameter";
  d->label = "Flax rejects an array with duplicate dim names";
  d->help = "name the dims differently in the model";
}

// The rules for arrays with the same dim names.
struct ResolvedRules {
  std::vector<RuleId> decided;
  std::vector<RuleId> named;  // rules that have the name of a dim, applied or not
};

ResolvedRules resolve_rules(const TpPlan& plan, const NameRules& rules, std::span<const std::string_view> names) {
  std::vector<SkippedRule> skipped;
  ResolvedRules resolved{.decided = resolve_dims(plan, rules, names, &skipped), .named = {}};
  for (const RuleId rule : resolved.decided) {
    if (rule != kNoRule) resolved.named.push_back(rule);
  }
  for (const SkippedRule& other : skipped) resolved.named.push_back(other.rule);
  return resolved;
}

// Returns the rule that represents a parameter: the first that shards it, else the first that replicates a dim.
RuleId leading_rule(const TpPlan& plan, const std::vector<RuleId>& decided) {
  RuleId first = kNoRule;
  for (const RuleId rule : decided) {
    if (rule == kNoRule) continue;
    const auto worth = [&](RuleId id) { return std::pair(plan.rules[id].spec->before.front().empty(), id); };
    if (first == kNoRule || worth(rule) < worth(first)) first = rule;
  }
  return first;
}

void match_logical(const TpPlan& plan, const ModelGraph& graph, MatchTable& table, Diagnostics& diagnostics, KeyHits*) {
  const NameRules rules = rules_by_name(plan);
  TextMap<std::string, ResolvedRules> known;
  std::string key;
  bool any_names = false;
  for (ParamId id = 0; id < graph.params.size(); ++id) {
    const Param& param = graph.params[id];
    const std::span<const std::string_view> names = logical_axes_of(graph, param);
    if (names.empty()) continue;
    any_names = true;
    if (const std::string_view twice = name_twice(names); !twice.empty()) {
      report_name_twice(graph, param, twice, diagnostics);
      continue;
    }
    key.clear();
    for (const std::string_view name : names) key.append(std::to_string(name.size())).append(1, ' ').append(name);
    const auto [place, is_new] = known.try_emplace(key);
    ResolvedRules& resolved = place->second;
    if (is_new) {
      resolved = resolve_rules(plan, rules, names);
      if (graph.framework == Framework::Jax)
        compare_nnx(plan, graph, param, rules, names, resolved.decided, diagnostics);
    }
    ParamMatch& match = table.params[id];
    match.rule = leading_rule(plan, resolved.decided);
    match.dims = static_cast<uint32_t>(table.dim_rules.size());
    table.dim_rules.insert(table.dim_rules.end(), resolved.decided.begin(), resolved.decided.end());
    for (const RuleId rule : resolved.named) ++table.rules[rule].parameters;
    for (const RuleId rule : resolved.decided) {
      if (rule != kNoRule) ++table.rules[rule].governed;
    }
  }
  if (any_names || graph.params.empty()) return;
  report_message(
      diagnostics, Code::UnnamedDims, plan.rules_span, "no parameter of the model has logical names for its dims",
      graph.framework == Framework::Jax
          ? "annotate parameters with nn.with_logical_partitioning or nnx.with_partitioning, and export the model again"
          : "add `logical_axes` to the parameters in the model, such as [\"embed\", \"mlp\"]");
}

}  // namespace

constexpr DialectRow kLogicalDialect = {.name = "logical",
                                        .keys = KeySyntax::Names,
                                        .targets = KeyTargets::Dims,
                                        .dead_rule = Code::UnmatchedShippedRule,
                                        .replicate_style = "",
                                        .match = match_logical};

}  // namespace tpplan
