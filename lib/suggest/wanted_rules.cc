#include "suggest/wanted_rules.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "model/module_kinds.h"
#include "resolve/infer/check_coverage.h"
#include "resolve/match/glob.h"
#include "suggest/text_trial.h"

namespace tpplan {
namespace {

// Replacement of a style that a dialect does not have: another style with an explicit replicated layout.
struct WrittenStyle {
  std::string_view name, style;
  bool is_input = false;  // true: inputs are replicated; false: outputs
};
constexpr WrittenStyle kWrittenStyles[] = {{"colwise_gather_output", "colwise"},
                                           {"embedding_colwise", "colwise"},
                                           {"embedding_rowwise", "rowwise", true},
                                           {"rowwise_split_input", "rowwise", true}};

bool set_style(const DialectRow& dialect, std::string_view name, PlanRule& rule) {
  rule.style = find_style(name, dialect.styles);
  if (rule.style != nullptr) return true;
  const auto written = std::ranges::find(kWrittenStyles, name, &WrittenStyle::name);
  if (written == std::end(kWrittenStyles)) return false;
  rule.style = find_style(written->style, dialect.styles);
  const std::vector<Layout> replicated{Placement{.kind = PlacementKind::Replicate}};
  (written->is_input ? rule.options.input_layouts : rule.options.output_layouts) = replicated;
  return rule.style != nullptr;
}

bool shards_tensors(const PlanRule& rule) { return rule.style == nullptr || !rule.style->shard_dim.empty(); }

bool outputs_replicated_values(const PlanRule& rule) {
  const auto& written = rule.options.output_layouts;
  const Layout layout = written && !written->empty()
                            ? written->front()
                            : Layout(rule.style->output.used ? rule.style->output.to : Placement{});
  return layout && layout->kind == PlacementKind::Replicate;
}

bool shards_identically(const PlanRule& a, const PlanRule& b) {
  if (a.style == nullptr || b.style == nullptr || !shards_tensors(a) || !shards_tensors(b))
    return shards_tensors(a) == shards_tensors(b);
  return a.style->shard_dim == b.style->shard_dim && outputs_replicated_values(a) == outputs_replicated_values(b);
}

// Returns the count of the unit's layers whose existing rule differs from the strategy.
size_t disagreements(const RuleDraftInput& w, const DraftUnit& unit, const UnitStrategy& strategy) {
  size_t count = 0;
  for (const DraftLayer& layer : unit.layers) {
    PlanRule rule;
    const std::string_view style = style_of(strategy, layer.role);
    const bool has_style = !style.empty() && set_style(*w.plan.dialect, style, rule);
    for (const ModuleId id : layer.modules) {
      const RuleId current_rule = rule_of(w.graph, w.matches, layer, id);
      if (current_rule == kNoRule) continue;
      count += has_style ? !shards_identically(rule, w.plan.rules[current_rule])
                         : shards_tensors(w.plan.rules[current_rule]);
      break;
    }
  }
  return count;
}

// Returns the data axis over which specs of the plan shard parameters, as in KerasHub's layout maps; kNoAxis if there
// is none.
AxisId shared_axis(const TpPlan& plan) {
  for (const PlanRule& rule : plan.rules) {
    if (!rule.spec) continue;
    for (const auto* dims : {&rule.spec->before, &rule.spec->after}) {
      for (const DimAxes& dim : *dims) {
        const auto found = std::ranges::find_if(dim, [&](AxisId axis) { return is_data_axis(plan, axis); });
        if (found != dim.end()) return *found;
      }
    }
  }
  return kNoAxis;
}

// Returns a spec that shards `dim` over the plan's axis. If the plan has a shared_axis, it also shards the largest
// other dim that this axis divides.
SpecTemplate spec_of(const RuleDraftInput& w, const Param& param, size_t dim) {
  SpecTemplate spec;
  spec.before.resize(param.ndim);
  spec.before[dim] = {w.axis};
  const AxisId shared = shared_axis(w.plan);
  if (shared == kNoAxis || shared == w.axis) return spec;
  const std::span<const int64_t> shape = shape_of(w.graph, param);
  size_t largest = dim;
  for (size_t d = 0; d < shape.size(); ++d) {
    const bool fits = d != dim && shape[d] % w.plan.mesh.axes[shared].size == 0;
    if (fits && (largest == dim || shape[d] > shape[largest])) largest = d;
  }
  if (largest != dim) spec.before[largest] = {shared};
  return spec;
}

// Returns the spec that shards a parameter like the style; nullopt if the style does not shard it.
std::optional<SpecTemplate> spec_for(const RuleDraftInput& w, const DraftLayer& layer, const Param& param,
                                     const StyleRow& style) {
  const Module& module = w.graph.modules[layer.module];
  const int dim =
      layer.ndim > 0 ? static_cast<int>(layer.heads_at) : find_dim(dims_of(w.graph, module, param), style.shard_dim);
  if (dim < 0 || style.shard_dim.empty()) return std::nullopt;
  return spec_of(w, param, static_cast<size_t>(dim));
}

// Adds one rule with a spec per parameter, for plans whose keys name parameters.
void add_param_rules(const RuleDraftInput& w, const DraftLayer& layer, const std::vector<ModuleId>& modules,
                     const StyleRow& style, std::vector<WantedRule>& wanted) {
  const char dot = separator(w.graph.framework);
  for (const Param& param : params_of(w.graph, w.graph.modules[layer.module])) {
    if (!layer.param.empty() && param.name != layer.param) continue;
    WantedRule target{.layer = &layer, .modules = modules, .paths = {}, .key = layer.key, .rule = {}};
    target.rule.spec = spec_for(w, layer, param, style);
    if (!target.rule.spec) continue;
    if (layer.param.empty()) target.key.name += fmt::format("{}{}", dot, glob_of_name(param.name));
    for (const ModuleId id : modules)
      target.paths.push_back(fmt::format("{}{}{}", w.graph.modules[id].path, dot, param.name));
    wanted.push_back(std::move(target));
  }
}

void add_module_rule(const RuleDraftInput& w, const DraftLayer& layer, const std::vector<ModuleId>& modules,
                     PlanRule rule, std::vector<WantedRule>& wanted) {
  WantedRule target{.layer = &layer, .modules = modules, .paths = {}, .key = layer.key, .rule = std::move(rule)};
  for (const ModuleId id : modules) {
    std::string path(w.graph.modules[id].path);
    if (!layer.param.empty()) path += fmt::format("{}{}", separator(w.graph.framework), layer.param);
    target.paths.push_back(std::move(path));
  }
  if (layer.ndim > 0 && !target.rule.style->shard_dim.empty()) {
    for (const Param& param : params_of(w.graph, w.graph.modules[layer.module])) {
      if (param.name == layer.param) target.rule.spec = spec_of(w, param, layer.heads_at);
    }
    target.rule.style = nullptr;
  }
  target.rule.axis = target.rule.style == nullptr ? kNoAxis : w.axis;
  wanted.push_back(std::move(target));
}

bool is_replicated_on_purpose(const DraftLayer& layer) {
  return layer.role == DraftRole::Router || layer.role == DraftRole::Table;
}

// True if keys of the plan must name parameters: by the dialect, or because every rule has a spec.
bool names_parameters(const TpPlan& plan) {
  return plan.dialect->targets == KeyTargets::Parameters ||
         (!plan.rules.empty() &&
          std::ranges::all_of(plan.rules, [](const PlanRule& rule) { return rule.style == nullptr; }));
}

}  // namespace

AxisId axis_of(const TpPlan& plan) {
  if (plan.axis != kNoAxis) return plan.axis;
  std::vector<size_t> uses(plan.mesh.axes.size());
  for (const PlanRule& rule : plan.rules) {
    if (rule.axis != kNoAxis) ++uses[rule.axis];
    if (!rule.spec) continue;
    for (const auto* dims : {&rule.spec->before, &rule.spec->after}) {
      for (const DimAxes& dim : *dims) {
        for (const AxisId axis : dim) uses[axis] += !is_data_axis(plan, axis);
      }
    }
  }
  return static_cast<AxisId>(std::ranges::max_element(uses) - uses.begin());
}

std::vector<const UnitStrategy*> strategies_of(const RuleDraftInput& w, const DraftUnit& unit) {
  std::vector<std::pair<size_t, const UnitStrategy*>> strategies;
  for (const UnitStrategy& strategy : unit_strategies()) {
    const bool is_reported = std::ranges::all_of(unit.layers, [&](const DraftLayer& layer) {
      PlanRule rule;
      const std::string_view style = style_of(strategy, layer.role);
      return style.empty() || set_style(*w.plan.dialect, style, rule);
    });
    if (!applies_to_unit(strategy, unit) || !is_reported) continue;
    const size_t count = disagreements(w, unit, strategy);
    if (count == 0 || w.graph.operations.is_there) strategies.emplace_back(count, &strategy);
  }
  std::ranges::stable_sort(strategies, {}, &std::pair<size_t, const UnitStrategy*>::first);
  std::vector<const UnitStrategy*> sorted;
  for (const auto& [count, strategy] : strategies) sorted.push_back(strategy);
  return sorted;
}

std::vector<WantedRule> wanted_rules(const RuleDraftInput& w, const MatchTable& current, const DraftUnit& unit,
                                     const UnitStrategy* strategy) {
  const DialectRow& dialect = *w.plan.dialect;
  std::vector<WantedRule> wanted;
  for (const DraftLayer& layer : unit.layers) {
    const std::vector<ModuleId> modules = uncovered_modules(w.graph, current, layer);
    std::string_view style = strategy == nullptr ? std::string_view{} : style_of(*strategy, layer.role);
    if (style.empty() && (strategy != nullptr || is_replicated_on_purpose(layer))) style = dialect.replicate_style;
    PlanRule rule;
    if (modules.empty() || style.empty() || !set_style(dialect, style, rule)) continue;
    const bool stays = style == dialect.replicate_style;
    if (stays && layer.elements <= kLargeParameter) continue;
    if (names_parameters(w.plan))
      add_param_rules(w, layer, modules, *rule.style, wanted);
    else
      add_module_rule(w, layer, modules, std::move(rule), wanted);
  }
  return wanted;
}

}  // namespace tpplan
