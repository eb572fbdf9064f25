#include "suggest/find_fixes.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "base/starred_path.h"
#include "cost/measure_collectives.h"
#include "diagnostics/text_edits.h"
#include "plan/dialects.h"
#include "resolve/infer/apply_init.h"
#include "resolve/infer/build_manifest.h"
#include "resolve/infer/resolve_ties.h"
#include "suggest/fitting_lengths.h"
#include "suggest/local_heads_help.h"
#include "suggest/rule_place.h"

namespace tpplan {
namespace {

// Limit of walked operations. It allows about sixty checks of a plan with eighty layers, which take half a second.
constexpr uint64_t kMostOperations = 500'000;
constexpr uint64_t kMostTrials = 200;
constexpr size_t kMaxDiagnosed = 3;
constexpr size_t kMostSums = 8;
constexpr std::string_view kSumsGradients = "replicated_with_grad_allreduce";

// A candidate plan, with its change as help text and as edits of the file. `edits` is empty if the file cannot be
// edited automatically.
struct PlanChange {
  TpPlan plan;
  std::string words;
  std::vector<Edit> edits;
  bool keeps_dim = true;  // the rule shards the same dim as before
  bool is_single = true;  // changes one rule
  bool is_likely = true;  // uses only styles of the plan
};

struct Search {
  Checker& checker;
  const ModelGraph& graph;
  const TpPlan& plan;
  const MatchTable& matches;
  const WalkOptions& walk;
  const SourceFile& file;
  const MeshSizes& sizes;
  uint64_t trials_left = 0;
  std::vector<Edit> offered;  // edits that an earlier diagnostic has
};

// True if a trial has an error that the baseline does not record.
bool has_new_errors(const Search& search, const Diagnostics& trial) {
  return std::ranges::any_of(trial.list, [&](const Diagnostic& d) {
    return d.severity == Severity::Error && !(search.checker.is_known && search.checker.is_known(d));
  });
}

bool is_at(const Span& a, const Span& b) {
  return b.length != 0 && a.file == b.file && a.offset == b.offset && a.length == b.length;
}

RuleId rule_at(const TpPlan& plan, const Span& span) {
  for (RuleId id = 0; id < plan.rules.size(); ++id) {
    if (is_at(span, plan.rules[id].value_span) || is_at(span, plan.rules[id].key_span)) return id;
  }
  return kNoRule;
}

// Returns the axis over which the last rule with one shards; kNoAxis if there is none.
AxisId axis_of_styles(const TpPlan& plan) {
  AxisId axis = kNoAxis;
  for (const PlanRule& rule : plan.rules) axis = rule.axis != kNoAxis ? rule.axis : axis;
  return axis;
}

bool cuts(const PlanRule& rule) { return rule.style == nullptr || !rule.style->shard_dim.empty(); }

bool is_on_embeddings(const Search& search, RuleId rule) {
  for (ParamId id = 0; id < search.matches.params.size(); ++id) {
    const Module& module = search.graph.modules[search.graph.params[id].module];
    if (search.matches.params[id].rule == rule && module.kind != ModuleKind::Embedding) return false;
  }
  return true;
}

// Returns changes of a rule's style to others of the dialect. A rule that shards continues to shard, because the other
// styles would only hide the error; styles that shard the same dim come first. For the same reason styles of experts
// and of embeddings are only for rules on these.
std::vector<PlanChange> other_styles(const Search& search, RuleId id) {
  const PlanRule& rule = search.plan.rules[id];
  std::vector<PlanChange> edits;
  if (rule.style == nullptr) return edits;
  std::vector<const StyleRow*> rows;
  const bool on_embeddings = is_on_embeddings(search, id);
  for (const StyleRow& row : style_table()) {
    const bool is_own = (row.sets & search.plan.dialect->styles) != 0;
    const bool fits = (rule.style->is_for_experts || !row.is_for_experts) &&
                      (row.modules != StyleModules::EmbeddingOnly || on_embeddings);
    if (is_own && fits && row.name != rule.style->name && (!cuts(rule) || !row.shard_dim.empty())) rows.push_back(&row);
  }
  const auto is_used = [&](const StyleRow* row) {
    return std::ranges::any_of(search.plan.rules, [row](const PlanRule& r) { return r.style == row; });
  };
  std::stable_partition(rows.begin(), rows.end(), is_used);  // clang 14 rejects the subrange of std::ranges
  std::stable_partition(rows.begin(), rows.end(),
                        [&](const StyleRow* row) { return row->shard_dim == rule.style->shard_dim; });
  for (const StyleRow* row : rows) {
    PlanChange edit{search.plan, fmt::format("write `{}` for `{}`", row->name, rule.key), {}};
    edit.plan.rules[id].style = row;
    edit.plan.rules[id].options = {};
    edit.keeps_dim = row->shard_dim == rule.style->shard_dim;
    edit.is_likely = is_used(row);
    if (edit.plan.rules[id].axis == kNoAxis) edit.plan.rules[id].axis = axis_of_styles(search.plan);
    if (rule.value_span.length == rule.style->name.size())  // the value is only the style's name
      edit.edits.push_back({.span = rule.value_span, .text = std::string(row->name)});
    edits.push_back(std::move(edit));
  }
  return edits;
}

// Returns the change that exchanges two styles in all of these rules; nullopt if a rule has another style, or a value
// that is more than a style's name.
std::optional<PlanChange> with_exchanged_styles(const Search& search, std::span<const RuleId> rules) {
  const StyleRow* first = search.plan.rules[rules.front()].style;
  const StyleRow* second = nullptr;
  for (const RuleId id : rules) {
    const StyleRow* style = search.plan.rules[id].style;
    if (style == nullptr || style->shard_dim.empty() || search.plan.rules[id].value_span.length != style->name.size())
      return std::nullopt;
    if (style != first && second == nullptr) second = style;
    if (style != first && style != second) return std::nullopt;
  }
  if (second == nullptr || first->shard_dim == second->shard_dim) return std::nullopt;
  PlanChange change{search.plan, {}, {}, false, false};
  for (const StyleRow* style : {second, first}) {
    std::vector<std::string> keys;
    for (const RuleId id : rules) {
      const PlanRule& rule = search.plan.rules[id];
      if (rule.style == style) continue;
      keys.push_back(fmt::format("`{}`", rule.key));
      change.plan.rules[id].style = style;
      change.edits.push_back({.span = rule.value_span, .text = std::string(style->name)});
    }
    change.words +=
        fmt::format("{}`{}` for {}", change.words.empty() ? "write " : ", and ", style->name, fmt::join(keys, " and "));
  }
  return change;
}

// Returns the change that removes `forward_dtype`, so that values are sent in their dtype.
std::vector<PlanChange> without_sent_dtype(const Search& search, RuleId id) {
  const std::optional<SentDtype>& sent = search.plan.rules[id].options.forward_dtype;
  if (!sent) return {};
  PlanChange edit{search.plan, fmt::format("remove `forward_dtype` of `{}`", search.plan.rules[id].key), {}};
  edit.edits.push_back({.span = sent->span, .text = {}, .is_entry = true});
  edit.plan.rules[id].options.forward_dtype.reset();
  return {std::move(edit)};
}

// Returns rules whose outputs are local shards that `use_local_output: false` would leave as DTensors.
std::vector<RuleId> local_shard_rules(const TpPlan& plan) {
  std::vector<RuleId> rules;
  for (RuleId id = 0; id < plan.rules.size(); ++id) {
    const PlanRule& rule = plan.rules[id];
    if (rule.style == nullptr || (known_options(*rule.style) & kUseLocalOutput) == 0 ||
        !rule.options.use_local_output.value_or(rule.style->use_local) || !rule.options.output_layouts)
      continue;
    const auto is_cut = [](const Layout& layout) { return layout && is_shard(*layout); };
    if (std::ranges::any_of(*rule.options.output_layouts, is_cut)) rules.push_back(id);
  }
  return rules;
}

// Returns the change that leaves the outputs of these rules as DTensors.
PlanChange with_dtensor_outputs(const Search& search, std::span<const RuleId> rules) {
  PlanChange change{search.plan, "write `use_local_output: false` for ", {}};
  change.is_single = rules.size() == 1;
  bool are_edits = true;
  for (const RuleId id : rules) {
    PlanRule& rule = change.plan.rules[id];
    rule.options.use_local_output = false;
    change.words += fmt::format("{}`{}`", id == rules.front() ? "" : id == rules.back() ? " and " : ", ", rule.key);
    const uint64_t end = rule.value_span.offset + rule.value_span.length;
    are_edits = are_edits && rule.value_span.length > 0 && search.file.text[end - 1] == '}' &&
                search.file.text[rule.value_span.offset] == '{' &&
                search.file.text.find("use_local_output", rule.value_span.offset) >= end;
    change.edits.push_back(
        {.span = {.file = search.file.id, .offset = end - 1, .length = 0}, .text = ", use_local_output: false"});
  }
  if (!are_edits) change.edits.clear();
  return change;
}

std::vector<PlanChange> without_rule(const Search& search, RuleId id) {
  if (cuts(search.plan.rules[id])) return {};
  PlanChange edit{search.plan, fmt::format("remove the rule `{}`", search.plan.rules[id].key), {}};
  edit.edits.push_back({.span = search.plan.rules[id].key_span, .text = {}, .is_entry = true});
  edit.plan.rules.erase(edit.plan.rules.begin() + id);
  return {std::move(edit)};
}

// Returns the edits that add a rule to the plan's file, after the rules with full paths.
std::vector<Edit> written(const Search& search, const PlanRule& rule) {
  std::vector<TextEdit> texts;
  add_rule_text(search.file, search.plan, place_of_path(search.plan, search.graph, rule.key), rule.style->name, {},
                texts);
  std::vector<Edit> edits;
  for (TextEdit& edit : texts)
    edits.push_back(
        {.span = {.file = search.file.id, .offset = edit.offset, .length = 0}, .text = std::move(edit.text)});
  return edits;
}

// Returns changes that add a rule for a path, one per style. Styles that do not shard come first.
// Returns where a rule with a full path belongs, if a reader could put it into a block.
std::string_view place_text(const TpPlan& plan) { return plan.blocks.empty() ? "" : " to `tp_plan`"; }

std::vector<PlanChange> with_rule(const Search& search, std::string_view path) {
  if (path.empty() || search.plan.rules.empty() || search.plan.dialect->keys != KeySyntax::Glob) return {};
  const AxisId axis = axis_of_styles(search.plan);
  if (axis == kNoAxis) return {};
  const ModuleId module = find_module(search.graph, path);
  const bool has_experts = module != kNone && search.graph.modules[module].kind == ModuleKind::Experts;
  std::vector<PlanChange> edits;
  for (const StyleRow& row : style_table()) {
    if ((row.sets & search.plan.dialect->styles) == 0 || row.name == search.plan.dialect->replicate_style) continue;
    if (row.is_for_experts && !has_experts) continue;
    PlanRule rule;
    rule.key = starred_path(path);
    rule.style = &row;
    rule.axis = axis;
    PlanChange edit{search.plan, fmt::format("add `\"{}\": {}`{}", rule.key, row.name, place_text(search.plan)),
                    written(search, rule)};
    edit.plan.rules.push_back(std::move(rule));
    edits.push_back(std::move(edit));
  }
  std::stable_partition(edits.begin(), edits.end(),
                        [](const PlanChange& e) { return e.plan.rules.back().style->shard_dim.empty(); });
  return edits;
}

// Returns changes that add a rule for a layer without one in a module, limited to styles that the plan already uses.
std::vector<PlanChange> with_rule_below(const Search& search, std::string_view path) {
  std::vector<PlanChange> edits;
  if (path.empty()) return edits;
  const std::string above = starred_path(path) + separator(search.graph.framework);
  std::vector<std::string> keys;
  for (const Module& module : search.graph.modules) {
    if (module.param_count == 0 || !is_below(search.graph, module.path, path)) continue;
    std::string key = starred_path(module.path);
    const bool has_rule = std::any_of(search.plan.rules.begin(), search.plan.rules.end(), [&](const PlanRule& rule) {
      return rule.key == key || rule.key.starts_with(key + ".");
    });
    if (key.starts_with(above) && !has_rule && std::find(keys.begin(), keys.end(), key) == keys.end())
      keys.push_back(std::move(key));
  }
  for (const std::string& key : keys) {
    for (const PlanChange& edit : with_rule(search, key)) {
      const StyleRow* style = edit.plan.rules.back().style;
      const bool is_known = std::any_of(search.plan.rules.begin(), search.plan.rules.end(),
                                        [style](const PlanRule& rule) { return rule.style == style; });
      if (is_known) edits.push_back(edit);
    }
  }
  return edits;
}

// Returns the change that adds a gradient-reducing rule for each module with a gradient diagnostic. For example, query
// and key norms need one each.
PlanChange with_sums(const Search& search, const Diagnostics& diagnostics) {
  PlanChange edit{search.plan, {}, {}};
  std::vector<std::string> keys;
  for (const Diagnostic& finding : diagnostics.list) {
    if (finding.fails != FirstFailure::Gradient || keys.size() == kMostSums) continue;
    for (const PlanChange& one : with_rule(search, finding.module)) {
      const PlanRule& rule = one.plan.rules.back();
      if (rule.style->name != kSumsGradients || std::find(keys.begin(), keys.end(), rule.key) != keys.end()) continue;
      keys.push_back(rule.key);
      edit.plan.rules.push_back(rule);
      if (edit.edits.empty())
        edit.edits = one.edits;
      else if (!one.edits.empty())
        edit.edits.front().text += one.edits.front().text;
      edit.words += fmt::format("{}`\"{}\": {}`", edit.words.empty() ? "add " : " and ", rule.key, rule.style->name);
    }
  }
  if (!keys.empty()) edit.words += place_text(search.plan);
  return edit;
}

// Returns the change that adds a gradient-reducing rule for a parameter whose gradient is never reduced. Such a
// parameter may be next to layers in a module that cannot have a rule.
std::vector<PlanChange> with_sum_of_parameter(const Search& search, const Diagnostic& finding) {
  if (finding.fails != FirstFailure::Gradient) return {};
  std::vector<PlanChange> edits = with_rule(search, finding.parameter);
  std::erase_if(edits, [](const PlanChange& edit) { return edit.plan.rules.back().style->name != kSumsGradients; });
  return edits;
}

// Returns changes that add a rule for the embedding that owns the tied weight of a rule's layer, if it has none.
std::vector<PlanChange> with_rule_of_owner(const Search& search, RuleId rule) {
  std::vector<PlanChange> edits;
  if (!search.plan.dialect->ties_after_sharding || search.matches.params.size() != search.graph.params.size())
    return edits;
  for (const Tie& tie : search.graph.ties) {
    const ParamId owner = owner_of_tie(search.graph, tie);
    const bool is_ruled = std::ranges::any_of(
        tie.params, [&](ParamId id) { return id != owner && search.matches.params[id].rule == rule; });
    if (!is_ruled || search.matches.params[owner].rule != kNoRule) continue;
    for (PlanChange& edit : with_rule(search, search.graph.modules[search.graph.params[owner].module].path)) {
      if (edit.plan.rules.back().style->modules == StyleModules::EmbeddingOnly) edits.push_back(std::move(edit));
    }
  }
  return edits;
}

bool is_fixed_by(Search& search, const PlanChange& edit) {
  if (search.trials_left == 0) return false;
  --search.trials_left;
  Diagnostics trial;
  std::ignore = check_plan(search.checker, edit.plan, trial, Phase::Operations, search.walk);
  return !has_new_errors(search, trial);
}

// Returns what a right plan costs: parameter bytes of the largest rank plus the bytes that a rank sends per step.
// Returns nullopt if the changed plan has an error.
std::optional<uint64_t> cost_of(Search& search, const PlanChange& edit) {
  if (search.trials_left == 0) return std::nullopt;
  --search.trials_left;
  Diagnostics trial;
  CheckResult j = check_plan(search.checker, edit.plan, trial, Phase::Operations, search.walk);
  if (has_new_errors(search, trial)) return std::nullopt;
  j.init = apply_init(edit.plan, search.graph, j.matches, j.shardings, trial);
  const PlanRuntime runtime = search.walk.runtime.value_or(edit.plan.dialect->runtime);
  const Manifest manifest =
      build_manifest(edit.plan, search.graph, j.matches, j.shardings, j.boundaries, j.init, runtime);
  return manifest.totals.max_bytes_per_rank + sum_calls(j.forecast.calls, edit.plan.mesh).wire;
}

bool is_same(const std::vector<Edit>& a, const std::vector<Edit>& b) {
  return std::ranges::equal(a, b, [](const Edit& x, const Edit& y) {
    return x.span.offset == y.span.offset && x.span.length == y.span.length && x.text == y.text;
  });
}

// Sets the edits of a diagnostic if the edited file is correct. Two diagnostics may each have a sufficient fix, but
// both fixes together are an unchecked plan, so only one distinct edit is offered.
void offer(Search& search, PlanChange change, Diagnostic& finding) {
  if (!search.offered.empty() && !is_same(search.offered, change.edits)) return;
  finding.edits = std::move(change.edits);
  const std::vector<TextEdit> edits = text_edits(search.file, finding);
  const SourceFile file{.name = search.file.name, .text = with_edits(search.file.text, edits), .id = search.file.id};
  Diagnostics trial;
  const TpPlan plan = read_plan(file, search.sizes, trial);
  if (!edits.empty() && !has_errors(trial))
    std::ignore = check_plan(search.checker, plan, trial, Phase::Operations, search.walk);
  if (edits.empty() || has_new_errors(search, trial)) finding.edits.clear();
  if (search.offered.empty()) search.offered = finding.edits;
}

bool try_edits(Search& search, const std::vector<PlanChange>& edits, Diagnostic& finding) {
  const auto found =
      std::find_if(edits.begin(), edits.end(), [&](const PlanChange& edit) { return is_fixed_by(search, edit); });
  if (found == edits.end()) return false;
  finding.help =
      fmt::format("{}: {} the plan", found->words, found->is_single ? "this change alone fixes" : "these changes fix");
  offer(search, *found, finding);
  return true;
}

// The cheapest right change of those that were tried, of equal ones the first.
struct Cheapest {
  std::optional<PlanChange> change;
  uint64_t cost = 0;
};

// A change that shards another dim must be a tenth cheaper, because it is farther from what the plan's author meant.
void try_change(Search& search, PlanChange change, Cheapest& best) {
  std::optional<uint64_t> cost = cost_of(search, change);
  if (cost && !change.keeps_dim) *cost += *cost / 10;
  if (cost && (!best.change || *cost < best.cost)) best = {std::move(change), *cost};
}

bool offer_cheapest(Search& search, Cheapest best, Diagnostic& finding) {
  if (!best.change) return false;
  finding.help = fmt::format("{}: {} the plan", best.change->words,
                             best.change->is_single ? "this change alone fixes" : "these changes fix");
  offer(search, std::move(*best.change), finding);
  return true;
}

// Tries to exchange the styles of two rules, and of all rules of one module.
void try_exchanges(Search& search, const std::vector<RuleId>& rules, Cheapest& best) {
  const auto try_those = [&](std::span<const RuleId> those) {
    if (search.trials_left == 0) return;
    if (auto change = with_exchanged_styles(search, those)) try_change(search, std::move(*change), best);
  };
  std::map<std::string_view, std::vector<RuleId>> of_module;
  for (size_t i = 0; i < rules.size() && search.trials_left > 0; ++i) {
    const std::string_view key = search.plan.rules[rules[i]].key;
    const size_t dot = key.rfind(separator(search.graph.framework));
    of_module[key.substr(0, dot == std::string_view::npos ? 0 : dot)].push_back(rules[i]);
    for (size_t j = i + 1; j < rules.size(); ++j) try_those(std::array{rules[i], rules[j]});
  }
  for (const auto& [module, those] : of_module) {
    if (those.size() > 2) try_those(those);
  }
}

// Tries the changes of all rules, those with styles of the plan first because the number of trials is limited, and
// offers the cheapest right one. A change is a copy of the plan, so each is made when it is tried.
bool try_cheapest(Search& search, const std::vector<RuleId>& rules, Diagnostic& finding) {
  Cheapest best;
  for (const bool is_likely : {true, false}) {
    for (const RuleId rule : rules) {
      if (search.trials_left == 0) break;
      for (auto& changes : {without_rule(search, rule), other_styles(search, rule)}) {
        for (const PlanChange& change : changes) {
          if (change.is_likely == is_likely) try_change(search, change, best);
        }
      }
    }
    if (is_likely) try_exchanges(search, rules, best);
  }
  return offer_cheapest(search, std::move(best), finding);
}

// Returns the rules whose values can meet in the failing operation: those at the diagnostic and its notes, then those
// of the layers in its module. A replicated value that meets shards has no rule at the diagnostic, and the rule that
// left it replicated is as often the wrong one. If no layer in the module has a rule, its parent's layers count.
std::vector<RuleId> rules_of_operands(const Search& search, const Diagnostic& finding) {
  std::vector<RuleId> rules;
  std::vector<bool> is_known(search.plan.rules.size());
  const auto add = [&](RuleId rule) {
    if (rule == kNoRule || is_known[rule]) return;
    is_known[rule] = true;
    rules.push_back(rule);
  };
  add(rule_at(search.plan, finding.span));
  for (const Note& note : finding.notes) add(rule_at(search.plan, note.span));
  const ModuleId module = find_module(search.graph, finding.module);
  const bool is_matched = search.matches.params.size() == search.graph.params.size();
  if (finding.module.empty() || module == kNone || !is_matched) return rules;
  const size_t rule_at_error = rules.size();
  for (ModuleId scope : {module, parent_of(search.graph, module)}) {
    if (scope == kNone || search.graph.modules[scope].path.empty() || rules.size() > rule_at_error) break;
    for (ParamId id = 0; id < search.graph.params.size(); ++id) {
      const ModuleId owner = search.graph.params[id].module;
      if (owner != scope && is_below(search.graph, search.graph.modules[owner].path, search.graph.modules[scope].path))
        add(search.matches.params[id].rule);
    }
  }
  return rules;
}

// Returns changes of a rule's style to others that shard the same dim.
std::vector<PlanChange> similar_styles(const Search& search, RuleId id) {
  const StyleRow* own = search.plan.rules[id].style;
  std::vector<PlanChange> edits = other_styles(search, id);
  std::erase_if(edits, [&](const PlanChange& edit) {
    const StyleRow* style = edit.plan.rules[id].style;
    return style->shard_dim != own->shard_dim;
  });
  return edits;
}

// Tries another style for the rule, and another one for the rule that fails next. Code with global sizes needs this:
// the output of a layer must be gathered, and the input of the next layer sharded again.
bool try_two_styles(Search& search, RuleId rule, Diagnostic& finding) {
  for (const PlanChange& first : similar_styles(search, rule)) {
    if (search.trials_left == 0) return false;
    --search.trials_left;
    Diagnostics trial;
    std::ignore = check_plan(search.checker, first.plan, trial, Phase::Operations, search.walk);
    const auto next =
        std::ranges::find_if(trial.list, [](const Diagnostic& other) { return other.fails != FirstFailure::None; });
    const RuleId other = next == trial.list.end() ? kNoRule : rule_at(first.plan, next->span);
    if (other == kNoRule || other == rule) continue;
    Search behind{search.checker, search.graph,       first.plan, search.matches, search.walk, search.file,
                  search.sizes,   search.trials_left, {}};
    for (PlanChange& second : similar_styles(behind, other)) {
      const bool is_right = is_fixed_by(behind, second);
      search.trials_left = behind.trials_left;
      if (!is_right) continue;
      finding.help = fmt::format("{}, and {}: these changes fix the plan", first.words, second.words);
      const bool are_edits = !first.edits.empty() && !second.edits.empty();
      second.edits.insert(second.edits.begin(), first.edits.begin(), first.edits.end());
      if (!are_edits) second.edits.clear();
      offer(search, std::move(second), finding);
      return true;
    }
  }
  return false;
}

// Tries to leave local shards as DTensors: those of one rule, then of all. A local shard cannot be combined with a
// DTensor, and code that counts positions from it counts those of the shard.
bool try_dtensor_outputs(Search& search, Diagnostic& finding) {
  // A DTensor as the result of the model would only hide that it is a shard.
  const bool is_of_result = finding.code == Code::OutputNotReplicated || finding.fails == FirstFailure::Gradient ||
                            finding.code == Code::LossOfPartial;
  if (is_of_result) return false;
  const std::vector<RuleId> rules = local_shard_rules(search.plan);
  std::vector<PlanChange> changes;
  for (const RuleId rule : rules) changes.push_back(with_dtensor_outputs(search, {&rule, 1}));
  if (rules.size() > 1) changes.push_back(with_dtensor_outputs(search, rules));
  return try_edits(search, changes, finding);
}

// Sets the help to sequence lengths with which the unchanged plan is correct on the same mesh.
bool try_lengths(Search& search, Diagnostic& finding) {
  const RuleId id = rule_at(search.plan, finding.span);
  const AxisId axis = id == kNoRule ? kNoAxis : search.plan.rules[id].axis;
  if (axis == kNoAxis || search.trials_left < kMostLengths) return false;
  search.trials_left -= kMostLengths;
  const std::vector<int64_t> lengths =
      fitting_lengths(search.graph, search.plan, search.walk, search.plan.mesh.axes[axis].size);
  if (lengths.empty()) return false;
  finding.help =
      fmt::format("use sequences of {} (`--sequence`): the plan passes without a change", fmt::join(lengths, " or "));
  return true;
}

// Sets the help to sizes of the rule's axis with which the unchanged plan is correct.
void try_sizes(Search& search, Diagnostic& finding) {
  constexpr int64_t kMostRanks = 1024;
  const RuleId id = rule_at(search.plan, finding.span);
  const AxisId axis = id == kNoRule ? kNoAxis : search.plan.rules[id].axis;
  if (axis == kNoAxis || search.plan.mesh.axes[axis].size > kMostRanks) return;
  const MeshAxis& own = search.plan.mesh.axes[axis];
  // Candidates are smaller sizes of the form 2^a 3^b, which covers the usual divisors of model sizes.
  std::vector<int64_t> sizes;
  for (int64_t two = 1; two < own.size; two *= 2) {
    for (int64_t size = two; size < own.size; size *= 3) sizes.push_back(size);
  }
  std::sort(sizes.begin(), sizes.end());
  std::vector<std::string> fitting;
  for (const int64_t size : sizes) {
    PlanChange edit{search.plan, {}, {}};
    edit.plan.mesh.axes[axis].size = size;
    if (is_fixed_by(search, edit)) fitting.push_back(fmt::format("{}", size));
  }
  if (fitting.size() > 1)  // size 1 is always correct and not worth a help
    finding.help =
        fmt::format("set `{}` to {}: the plan passes without other changes", own.name, fmt::join(fitting, ", "));
}

// Sets the help to a change that fixes the plan. Smaller changes are tried first: an option, one rule, a new rule, two
// styles, the sequence length, the mesh.
void find_fix(Search& search, Diagnostic& finding) {
  const std::vector<RuleId> rules = rules_of_operands(search, finding);
  Cheapest of_owner;
  for (const RuleId rule : rules) {
    for (PlanChange& change : with_rule_of_owner(search, rule)) try_change(search, std::move(change), of_owner);
  }
  if (offer_cheapest(search, std::move(of_owner), finding)) return;
  for (const RuleId rule : rules) {
    if (try_edits(search, without_sent_dtype(search, rule), finding)) return;
  }
  if (try_dtensor_outputs(search, finding)) return;
  if (try_cheapest(search, rules, finding)) return;
  if (try_edits(search, with_rule(search, finding.module), finding)) return;
  if (try_edits(search, with_rule_below(search, finding.module), finding)) return;
  if (try_edits(search, with_sum_of_parameter(search, finding), finding)) return;
  for (const RuleId rule : rules) {
    if (try_two_styles(search, rule, finding)) return;
  }
  if (try_lengths(search, finding)) return;
  try_sizes(search, finding);
}

// Tries gradient-reducing rules for several modules at once, if the first predicted failure is a gradient.
bool try_sums(Search& search, Diagnostics& diagnostics) {
  const auto first = std::find_if(diagnostics.list.begin(), diagnostics.list.end(),
                                  [](const Diagnostic& finding) { return finding.fails != FirstFailure::None; });
  if (first == diagnostics.list.end() || first->fails != FirstFailure::Gradient) return false;
  const PlanChange edit = with_sums(search, diagnostics);
  if (edit.plan.rules.size() < search.plan.rules.size() + 2 || !is_fixed_by(search, edit)) return false;
  first->help = fmt::format("{}: these changes fix the plan", edit.words);
  offer(search, edit, *first);
  return true;
}

}  // namespace

void find_fixes(Checker& checker, const TpPlan& plan, const MatchTable& matches, const SourceFile& file,
                const MeshSizes& mesh_sizes, const WalkOptions& walk, Diagnostics& diagnostics) {
  const uint64_t operations = std::max<uint64_t>(checker.graph.operations.nodes.size(), 1);
  Search search{.checker = checker,
                .graph = checker.graph,
                .plan = plan,
                .matches = matches,
                .walk = walk,
                .file = file,
                .sizes = mesh_sizes,
                .trials_left = std::min(kMostTrials, kMostOperations / operations)};
  size_t asked = 0;
  if (try_sums(search, diagnostics)) return;
  for (Diagnostic& finding : diagnostics.list) {
    if (finding.fails == FirstFailure::None || (checker.is_known && checker.is_known(finding)) ||
        ++asked > kMaxDiagnosed)
      continue;
    find_fix(search, finding);
    add_local_heads_help(checker, plan, matches, walk, finding);
  }
}

}  // namespace tpplan
