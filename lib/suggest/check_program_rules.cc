#include "suggest/check_program_rules.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "base/text.h"
#include "model/name_subject.h"

namespace tpplan {
namespace {

constexpr double kSavedForWarning = 0.25, kSavedForNote = 0.1;

// A rule with the bytes of the collectives at its parameters.
struct RuleCost {
  RuleId rule = kNoRule;
  double sent = 0;
};

// Returns the rules with a spec, those whose parameters cost the most bytes first. A rule without collectives at its
// parameters comes last, not never: a layer that expects another layout gathers its output.
std::vector<RuleCost> rules_by_cost(const TpPlan& plan, const Forecast& forecast) {
  std::vector<RuleCost> costs;
  for (RuleId id = 0; id < plan.rules.size(); ++id) {
    if (!plan.rules[id].spec || plan.rules[id].of_dim) continue;
    RuleCost cost{.rule = id};
    for (const CompiledCall& call : forecast.compiled) cost.sent += call.rule == plan.rules[id].key ? call.wire : 0;
    costs.push_back(cost);
  }
  std::ranges::stable_sort(costs, std::greater(), &RuleCost::sent);
  return costs;
}

// Returns the first parameter of a rule; kNone if its parameters differ in their number of dims, or it has none.
ParamId param_of(const SpecTrials& t, const CheckResult& result, RuleId rule) {
  ParamId found = kNone;
  for (ParamId id = 0; id < t.in.graph.params.size(); ++id) {
    if (result.matches.params[id].rule != rule || result.matches.params[id].dims != kNone) continue;
    if (found != kNone && t.in.graph.params[found].ndim != t.in.graph.params[id].ndim) return kNone;
    if (found == kNone) found = id;
  }
  return found;
}

// Tries to exchange the axes of two dims of the rule's parameters. A dim over which the batch is sharded stays: FSDP
// gathers its parameters, whichever dim it shards.
void try_dims(SpecTrials& t, const CheckResult& result, RuleId rule, std::optional<SpecTrial>& best) {
  const ParamId param = param_of(t, result, rule);
  if (param == kNone) return;
  const PartitionSpec spec = sharding_by_rule(result.shardings, t.in.plan, param).spec;
  const auto is_movable = [&](const DimAxes& axes) {
    return std::ranges::none_of(axes, [&](AxisId axis) { return is_data_axis(t.in.plan, axis); });
  };
  for (size_t a = 0; a < spec.size(); ++a) {
    for (size_t b = a + 1; b < spec.size(); ++b) {
      if (spec[a] == spec[b] || !is_movable(spec[a]) || !is_movable(spec[b])) continue;
      PartitionSpec changed = spec;
      std::swap(changed[a], changed[b]);
      std::optional<SpecTrial> trial = try_specs(t, {{rule, changed}});
      if (trial && fits_memory(t, *trial)) keep_better(t, std::move(trial), best);
    }
  }
}

}  // namespace

std::string check_program_rules(SpecTrials& t, const CheckResult& result, Diagnostics& diagnostics) {
  std::optional<SpecTrial> best;
  RuleId rule = kNoRule;
  double sent = 0;  // at the parameters of the rule
  for (const RuleCost& cost : rules_by_cost(t.in.plan, result.forecast)) {
    const double before = best ? best->bytes.sent : t.before.sent;
    try_dims(t, result, cost.rule, best);
    if (best && best->bytes.sent < before) {
      rule = cost.rule;
      sent = cost.sent;
    }
  }
  if (!best || best->bytes.sent > (1 - kSavedForNote) * t.before.sent) return {};
  if (best->bytes.sent > (1 - kSavedForWarning) * t.before.sent) return trial_text(t, *best);
  const Param& param = t.in.graph.params[param_of(t, result, rule)];
  Diagnostic& d = report_message(
      diagnostics, Code::CostlyRule, t.in.plan.rules[rule].value_span,
      fmt::format("`{}` shards `{}` over another dim than the layers around it expect: a step sends about {}, {} of it "
                  "in operations on this rule's parameters",
                  t.in.plan.rules[rule].key, path_of(t.in.graph, param), human_bytes_near(t.before.sent),
                  human_bytes_near(sent)));
  name_subject(d, t.in.graph, param);
  offer_trial(t, *best, d);
  return {};
}

}  // namespace tpplan
