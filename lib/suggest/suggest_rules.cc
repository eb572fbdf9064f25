#include "suggest/suggest_rules.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "plan/plan_edits.h"
#include "plan/write_plan.h"
#include "resolve/infer/check_coverage.h"
#include "sharding/dtype.h"
#include "sharding/tensor_size.h"
#include "suggest/rule_place.h"
#include "suggest/unit_words.h"
#include "suggest/wanted_rules.h"

namespace tpplan {
namespace {

constexpr size_t kMostPaths = 8;  // modules that may get separate keys

struct Suggesting {
  Checker& checker;
  const ModelGraph& graph;
  const SourceFile& file;
  const MeshSizes& sizes;
  const WalkOptions& walk;
  const TextTrial& base;
  const RuleDraftInput wants;
  TextTrial current;
  std::vector<std::string> firsts;  // first_matched_paths of the base (rule_place.h)
  std::vector<TextEdit> edits;
};

TextTrial try_edits(const Suggesting& s, const std::vector<TextEdit>& edits) {
  const SourceFile file{.name = s.file.name, .text = with_edits(s.file.text, edits), .id = s.file.id};
  return check_plan_text(s.checker, file, s.sizes, s.walk);
}

enum class KeyNotation : uint8_t { Neighbour, Pattern, Paths };

std::vector<RulePlace> places_of(const Suggesting& s, const WantedRule& target, KeyNotation notation) {
  const TpPlan& plan = s.base.plan;
  if (notation == KeyNotation::Neighbour) {
    if (auto place = place_next_to(plan, s.graph, s.firsts, target.paths.front())) return {std::move(*place)};
  }
  std::vector<RulePlace> places;
  if (notation != KeyNotation::Paths) return {place_of_key(plan, s.graph, target.key)};
  if (target.paths.size() > kMostPaths || plan.dialect->follows_framework) return {};
  for (const std::string& path : target.paths) places.push_back(place_of_path(plan, s.graph, path));
  return places;
}

std::string value_of(const Suggesting& s, const PlanRule& rule) {
  const std::string text = rule_text(rule, s.base.plan.mesh, s.base.plan.axis);
  constexpr std::string_view begin = "{spec: ";
  const bool is_list = s.base.plan.dialect->targets == KeyTargets::Parameters && text.starts_with(begin);
  return is_list ? text.substr(begin.size(), text.size() - begin.size() - 1) : text;
}

// Adds rules to the plan with all accepted edits, and checks it. Accepts the rules and returns an empty text, or
// returns the reason against them.
std::string attempt(Suggesting& s, const std::vector<WantedRule>& targets, std::string_view comment,
                    KeyNotation notation) {
  std::vector<TextEdit> edits = s.edits;
  std::vector<std::string> comments = comment_lines_of(comment);
  std::set<std::pair<uint32_t, std::string>> written;
  for (const WantedRule& target : targets) {
    const std::vector<RulePlace> places = places_of(s, target, notation);
    if (places.empty()) return "too many of its layers would need separate keys";
    for (const RulePlace& place : places) {
      if (!written.emplace(place.block, place.key).second) continue;
      add_rule_text(s.file, s.base.plan, place, value_of(s, target.rule), comments, edits);
      comments.clear();
    }
  }
  std::ranges::stable_sort(edits, {}, &TextEdit::offset);
  TextTrial trial = try_edits(s, edits);
  if (std::string fault = first_new_diagnostic(s.current, trial); !fault.empty()) return fault;
  if (!preserves_rules(s.current, trial)) return "its keys also match other layers";
  for (const WantedRule& target : targets) {
    const bool is_covered_everywhere = std::ranges::all_of(
        target.modules, [&](ModuleId id) { return is_covered(s.graph, trial.matches, *target.layer, id); });
    if (!is_covered_everywhere) return fmt::format("no key that matches every `{}` is known", target.key.name);
  }
  s.edits = std::move(edits);
  s.current = std::move(trial);
  return {};
}

// Tries the rules with each notation of keys. True if one was accepted. Sets an empty `reason` to the first reason
// against them.
bool try_rules(Suggesting& s, const std::vector<WantedRule>& targets, std::string_view comment, std::string& reason) {
  for (const KeyNotation notation : {KeyNotation::Neighbour, KeyNotation::Pattern, KeyNotation::Paths}) {
    std::string fault = attempt(s, targets, comment, notation);
    if (fault.empty()) return true;
    if (reason.empty()) reason = std::move(fault);
  }
  return false;
}

// Suggests rules for a unit, and returns the reason if there are none. A unit is settled if a strategy needs no further
// rule. If the plan has diagnostics, later strategies are tried too and accepted if they leave fewer.
std::string suggest_for(Suggesting& s, const DraftUnit& unit) {
  if (s.base.plan.dialect->keys == KeySyntax::Names)
    return "rules use names of dims, and only the model defines what a name means";
  const bool is_new = std::ranges::all_of(unit.layers, [&](const DraftLayer& layer) {
    return uncovered_modules(s.graph, s.current.matches, layer).size() == layer.modules.size();
  });
  std::string reason;
  bool is_settled = false;
  for (const UnitStrategy* strategy : strategies_of(s.wants, unit)) {
    const std::vector<WantedRule> targets = wanted_rules(s.wants, s.current.matches, unit, strategy);
    if (targets.empty()) {
      if (s.current.findings.empty()) return {};
      is_settled = true;
      continue;
    }
    if (std::string fault = unverifiable_reason(s.graph, unit, *strategy); !fault.empty()) {
      if (reason.empty()) reason = std::move(fault);
      continue;
    }
    const std::vector<TextEdit> edits = s.edits;
    const TextTrial before = s.current;
    if (!try_rules(s, targets, is_new ? unit_comment(unit, strategy, reason) : "", reason)) continue;
    if (!is_settled || is_better(before, s.current)) return {};
    s.edits = edits;
    s.current = before;
  }
  if (is_settled) return {};
  const std::vector<WantedRule> replicating = wanted_rules(s.wants, s.current.matches, unit, nullptr);
  if (!replicating.empty() && try_rules(s, replicating, is_new ? unit_comment(unit, nullptr, {}) : "", reason))
    return {};
  return reason.empty() ? "no sharding is known for it" : reason;
}

void add_uncovered(const Suggesting& s, const DraftUnit& unit, std::string reason,
                   std::vector<UncoveredUnit>& uncovered_units) {
  const bool is_uncovered = std::ranges::any_of(unit.layers, [&](const DraftLayer& layer) {
    return !uncovered_modules(s.graph, s.current.matches, layer).empty();
  });
  if (!is_uncovered) return;
  DraftKey key = unit.layers.size() == 1 ? unit.layers.front().key : unit.scope;
  if (!key.block.empty() && !key.name.empty()) key.block += separator(s.graph.framework);
  uncovered_units.push_back({key.block + key.name, std::move(reason)});
}

// Returns the rules that the original plan does not have, with the parameters that each covers.
std::vector<SuggestedRule> new_rules(const Suggesting& s) {
  const TpPlan& plan = s.current.plan;
  const std::vector<bool> known = rules_in_both(plan, s.base.plan);
  std::map<RuleId, SuggestedRule> rules;
  for (RuleId id = 0; id < plan.rules.size(); ++id) {
    if (known[id]) continue;
    const auto [block, key] = name_of(plan, id);
    rules[id] = {.block = std::string(block), .key = std::string(key), .treatment = value_of(s, plan.rules[id])};
  }
  for (ParamId param = 0; param < s.current.matches.params.size(); ++param) {
    const auto rule = rules.find(s.current.matches.params[param].rule);
    if (rule == rules.end()) continue;
    ++rule->second.parameters;
    const Param& owned = s.graph.params[param];
    rule->second.bytes += byte_size(owned.dtype, elements_of(shape_of(s.graph, owned)));
  }
  std::vector<SuggestedRule> list;
  for (auto& [id, rule] : rules) list.push_back(std::move(rule));
  return list;
}

}  // namespace

RuleSuggestion suggest_rules(Checker& checker, const SourceFile& file, const MeshSizes& mesh_sizes,
                             const WalkOptions& walk) {
  const ModelGraph& graph = checker.graph;
  const TextTrial base = check_plan_text(checker, file, mesh_sizes, walk);
  RuleSuggestion suggestion{.text = file.text, .before = base.counts, .after = base.counts};
  if (!base.is_read) return suggestion;
  Suggesting s{.checker = checker,
               .graph = graph,
               .file = file,
               .sizes = mesh_sizes,
               .walk = walk,
               .base = base,
               .wants = {.graph = graph, .plan = base.plan, .matches = base.matches, .axis = axis_of(base.plan)},
               .current = base,
               .firsts = first_matched_paths(base.plan, graph, base.matches)};
  for (const DraftUnit& unit : find_units(graph, kLargeParameter)) {
    std::string reason = suggest_for(s, unit);
    if (!reason.empty()) add_uncovered(s, unit, std::move(reason), suggestion.uncovered_units);
  }
  if (!preserves_other_values(file, s.edits)) return suggestion;
  suggestion.rules = new_rules(s);
  suggestion.edits = s.edits;
  suggestion.text = with_edits(file.text, s.edits);
  suggestion.after = s.current.counts;
  suggestion.is_walked = graph.operations.is_there && s.current.reached >= Phase::Operations;
  return suggestion;
}

}  // namespace tpplan
