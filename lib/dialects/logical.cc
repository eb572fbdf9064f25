// The logical dialect: logical axis rules as Flax reads them (flax/linen/spmd.py, logical_to_mesh_axes, of Flax 0.12),
// and with it MaxText. The model names the dims of its arrays; a rule says over which axes the dims of one name are
// cut. The rules are asked in their order, and each is for an array whose dim has its name, has no rule yet, and leaves
// the rule's axes to no other dim of this array. What no rule decides over stays whole.
#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/text.h"
#include "match/decide_dims.h"

namespace tpplan {
namespace {

// The first name that stands twice; empty where none does.
std::string_view name_twice(std::span<const std::string_view> names) {
  for (size_t i = 1; i < names.size(); ++i) {
    if (!names[i].empty() && std::find(names.begin(), names.begin() + static_cast<ptrdiff_t>(i), names[i]) !=
                                 names.begin() + static_cast<ptrdiff_t>(i))
      return names[i];
  }
  return {};
}

void report_name_twice(const ModelGraph& graph, const Param& param, std::string_view name, Diagnostics& diagnostics) {
  Diagnostic* d = report(diagnostics, Code::TP4012, span_of(graph, param), fmt::format("twice/{}", name));
  if (d == nullptr) return;
  d->message = fmt::format("two dims of `{}` are called `{}`", path_of(graph, param), name);
  d->counted = "parameter";
  d->label = "Flax refuses an array whose dims have one name";
  d->help = "call them by two names in the model";
}

// Arrays whose dims have the same names: what rules decide of one of them they decide of all.
struct Alike {
  std::vector<RuleId> decided;
  std::vector<RuleId> named;  // rules whose name one of them has
};

Alike decide(const TpPlan& plan, const NameRules& rules, std::span<const std::string_view> names) {
  std::vector<SkippedRule> skipped;
  Alike alike{.decided = decide_dims(plan, rules, names, &skipped), .named = {}};
  for (const RuleId rule : alike.decided) {
    if (rule != kNoRule) alike.named.push_back(rule);
  }
  for (const SkippedRule& other : skipped) alike.named.push_back(other.rule);
  return alike;
}

// The rule that stands for all of a parameter: the first that cuts it, else the first that leaves a dim whole.
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
  TextMap<std::string, Alike> known;
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
    Alike& alike = place->second;
    if (is_new) alike = decide(plan, rules, names);
    ParamMatch& match = table.params[id];
    match.rule = leading_rule(plan, alike.decided);
    match.dims = static_cast<uint32_t>(table.dim_rules.size());
    table.dim_rules.insert(table.dim_rules.end(), alike.decided.begin(), alike.decided.end());
    for (const RuleId rule : alike.named) ++table.rules[rule].parameters;
    for (const RuleId rule : alike.decided) {
      if (rule != kNoRule) ++table.rules[rule].governed;
    }
  }
  if (any_names || graph.params.empty()) return;
  report_message(
      diagnostics, Code::TP4012, plan.rules_span, "no parameter of the model names its dims",
      graph.framework == Framework::Jax
          ? "annotate them, by nn.with_logical_partitioning or nnx.with_partitioning, and export the model again"
          : "give them `logical_axes` in the model, such as [\"embed\", \"mlp\"]");
}

}  // namespace

constexpr DialectRow kLogicalDialect = {.name = "logical",
                                        .keys = KeySyntax::Names,
                                        .targets = KeyTargets::Dims,
                                        .dead_rule = Code::TP4002,
                                        .keep_whole = "",
                                        .match = match_logical};

}  // namespace tpplan
