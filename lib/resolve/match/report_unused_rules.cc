#include "resolve/match/report_unused_rules.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "base/text.h"
#include "plan/write_plan.h"
#include "resolve/match/decide_dims.h"
#include "resolve/match/nearest_path.h"
#include "resolve/match/pattern.h"
#include "resolve/match/rule_scopes.h"

namespace tpplan {
namespace {

// Cost above which a key gets no hint, because a plan may have many such keys.
constexpr uint64_t kMaxHintCost = 10'000;

std::string dotted(std::string text) {
  std::replace(text.begin(), text.end(), '/', '.');
  return text;
}

// Returns the first module that the key matches as a full path, by the module's path or, with `parameters`, by a
// parameter's path. With `in_block`, matches the key relative to the rule's block. Returns kNone if there is no match
// or the budget is used up.
ModuleId named_module(const TpPlan& plan, PathHints& hints, const PlanRule& rule, bool in_block, bool parameters) {
  const ModelGraph& graph = hints.graph;
  const bool regex = plan.dialect->keys == KeySyntax::Regex, slash_is_dot = plan.dialect->slash_is_dot;
  if (!in_block) {
    if (const ModuleId id = find_module(graph, rule.key); id != kNone) return id;
    if (const ParamId id = parameters ? find_param(graph, rule.key) : kNone; id != kNone)
      return graph.params[id].module;
    if (!regex && !is_glob(rule.key)) return kNone;
  }
  if (!charge_pass(hints)) return kNone;
  const std::string mark = separator(graph.framework) == '.' ? "\\." : "/";
  const std::string before = in_block ? glob_to_regex(plan.blocks[rule.block].text) + mark : "";
  std::vector<std::string> expressions = {before + "(?:" + (regex ? rule.key : glob_to_regex(rule.key)) + ")"};
  if (slash_is_dot) expressions.push_back(dotted(expressions[0]));
  std::vector<std::string> faults;
  const PatternSetPtr set = compile_patterns(expressions, PatternAnchor::Whole, &faults, kMaxHintCost);
  const auto matches = [&](std::string_view path) {
    return matches_any(*set, path) || (slash_is_dot && matches_any(*set, dotted(std::string(path))));
  };
  std::string path;
  for (ModuleId id = 0; id < graph.modules.size(); ++id) {
    const Module& module = graph.modules[id];
    if (matches(module.path)) return id;
    for (ParamId param = module.first_param; parameters && param < module.first_param + module.param_count; ++param) {
      assign_path(path, graph, graph.params[param]);
      if (matches(path)) return id;
    }
  }
  return kNone;
}

// Returns the help for a key in a block that starts with the full path of the block's module.
std::string absolute_key_help(const TpPlan& plan, const ModelGraph& graph, const PlanRule& rule) {
  const std::string& block = plan.blocks[rule.block].text;
  std::string_view rest = rule.key;
  const char mark = separator(graph.framework);
  for (auto parts = std::count(block.begin(), block.end(), mark) + 1; parts > 0 && !rest.empty(); --parts) {
    const size_t at = rest.find(mark);
    rest = at == std::string_view::npos ? "" : rest.substr(at + 1);
  }
  return rest.empty() || plan.dialect->keys == KeySyntax::Regex
             ? fmt::format("remove the prefix up to `{}`: keys of a block are relative to its modules", block)
             : fmt::format("keys of a block are relative to its modules: write `{}`", rest);
}

// Returns the help for a key that names a module without parameters for the rule.
std::string module_key_help(const TpPlan& plan, const ModelGraph& graph, const PlanRule& rule, ModuleId named) {
  const std::string_view path = graph.modules[named].path;
  const auto below = std::find_if(graph.modules.begin(), graph.modules.end(),
                                  [&](const Module& m) { return m.param_count > 0 && is_below(graph, m.path, path); });
  if (below == graph.modules.end()) return fmt::format("`{}` is a module without parameters: remove the rule", path);
  if (plan.dialect->targets == KeyTargets::Parameters) {
    return fmt::format(
        "`{}` is a module, but keys of this dialect name variables: write `{}/.*`, or a variable such as `{}`", path,
        rule.key, path_of(graph, graph.params[below->first_param]));
  }
  return fmt::format("`{}` is a module without parameters of its own: name a path below it, such as `{}`{}", path,
                     below->path, rule.block == kNoRule ? "" : ", relative to the block's module");
}

// Returns the help for a dead key that names an existing module or parameter in the wrong place; empty for other keys.
std::string misplaced_key_help(const TpPlan& plan, PathHints& hints, const PlanRule& rule) {
  if (rule.key.empty()) return "";
  const bool in_block = rule.block != kNoRule;
  if (in_block && named_module(plan, hints, rule, false, true) != kNone)
    return absolute_key_help(plan, hints.graph, rule);
  const ModuleId named = named_module(plan, hints, rule, in_block, false);
  const bool is_modules_only = plan.dialect->targets == KeyTargets::Modules;
  return named == kNone || is_modules_only ? "" : module_key_help(plan, hints.graph, rule, named);
}

// ---- notations ----

// True if a regular expression matches the path of a module or parameter.
bool matches_as(PathHints& hints, const std::string& expression) {
  if (!charge_pass(hints)) return false;
  std::vector<std::string> faults;
  const PatternSetPtr set = compile_patterns(std::span(&expression, 1), PatternAnchor::Whole, &faults, kMaxHintCost);
  if (!faults[0].empty()) return false;
  std::string path;
  for (const Module& module : hints.graph.modules) {
    if (matches_any(*set, module.path)) return true;
    for (ParamId param = module.first_param; param < module.first_param + module.param_count; ++param) {
      assign_path(path, hints.graph, hints.graph.params[param]);
      if (matches_any(*set, path)) return true;
    }
  }
  return false;
}

// True if a key is a comma-separated list of globs that all match.
bool names_several(PathHints& hints, std::string_view key) {
  if (key.find(',') == std::string_view::npos || key.find_first_of("[{") != std::string_view::npos) return false;
  for (std::string_view part : split(key, ',')) {
    part.remove_prefix(std::min(part.find_first_not_of(' '), part.size()));
    part = part.substr(0, part.find_last_not_of(' ') + 1);
    if (part.empty() || !matches_as(hints, glob_to_regex(std::string(part)))) return false;
  }
  return true;
}

// Returns the help for a key that is a module type, such as `LlamaAttention`; empty for other keys.
std::string type_help(const TpPlan& plan, PathHints& hints, const PlanRule& rule) {
  const ModelGraph& graph = hints.graph;
  const bool is_class = !rule.key.empty() && rule.key[0] >= 'A' && rule.key[0] <= 'Z' &&
                        rule.key.find_first_of("./*?[") == std::string::npos;
  if (!is_class || !charge_pass(hints)) return "";
  const auto first =
      std::ranges::find_if(graph.modules, [&](const Module& module) { return type_of(graph, module) == rule.key; });
  if (first == graph.modules.end()) return "";
  return fmt::format("`{}` is a module type, but keys are paths: write `{}` for a module of that type", rule.key,
                     pattern_of_path(first->path, graph.framework, plan.dialect->keys));
}

// Returns the help for a key in the notation of another dialect; empty for other keys.
std::string notation_help(const TpPlan& plan, PathHints& hints, const PlanRule& rule, const PathHint& hint) {
  if (rule.block == kNoRule && plan.dialect->keys == KeySyntax::Regex) {
    const std::string regex = glob_as_regex(rule.key);
    return is_glob(rule.key) && regex != rule.key && matches_as(hints, regex)
               ? fmt::format("keys are regular expressions in this dialect, and this is a glob: write `{}`", regex)
               : "";
  }
  if (names_several(hints, rule.key)) return "a key is one path or pattern: write one rule for each";
  const size_t brace = rule.key.find('{');
  if (brace != std::string::npos && rule.key.find(',', brace) < rule.key.find('}', brace))
    return "a glob has no `{a,b}`: write one rule for each";
  if (rule.key.find_first_of("\\()|^$+") == std::string::npos || !matches_as(hints, rule.key)) return "";
  return rule.key.find('|') != std::string::npos
             ? "keys are globs in this dialect: write one rule for each, or `dialect: regex`"
         : hint.key.empty()
             ? "keys are globs in this dialect, and this is a regular expression: write `dialect: regex`"
             : fmt::format("keys are globs in this dialect, and this is a regular expression: write `{}`", hint.key);
}

PathSearch hint_for(const TpPlan& plan, const RuleScopes& scopes, const PlanRule& rule) {
  const std::vector<ModuleId>* block = rule.block == kNoRule ? nullptr : &scopes.list[1 + rule.block].modules;
  return {.key = rule.key,
          .syntax = rule.block == kNoRule ? plan.dialect->keys : KeySyntax::Glob,
          .parameters = plan.dialect->targets != KeyTargets::Modules,
          .needs_parameters = rule.style == nullptr || rule.style->touches_parameters,
          .base = block == nullptr || block->empty() ? kNone : block->front(),
          .bases = block == nullptr || block->empty() ? 1 : block->size()};
}

// Adds a dead rule of a shipped plan to a single warning: such plans contain rules for other configurations of the
// model.
void report_dead_shipped_rule(const PlanRule& rule, Diagnostics& diagnostics) {
  Diagnostic* d = report(diagnostics, Code::UnmatchedShippedRule, rule.key_span, "dead rules");
  if (d == nullptr) {
    const auto first = std::find_if(diagnostics.list.begin(), diagnostics.list.end(),
                                    [](const Diagnostic& other) { return other.code == Code::UnmatchedShippedRule; });
    first->notes.push_back({fmt::format("`{}` matches nothing either", rule.key), rule.key_span});
    first->count = 1;
    return;
  }
  d->message = fmt::format("rule `{}` matches nothing in this model", rule.key);
  d->help = "if the model should have it, check the spelling; otherwise mark the rule `optional: true`";
}

Edit rewrite_key(const PlanRule& rule, const std::string& key) { return {rule.key_span, key_text(key)}; }

// Reports a dead rule of a shipped plan whose key is a misspelt path of this model; false if it is none.
bool report_misspelt_rule(const TpPlan& plan, PathHints& hints, const PlanRule& rule, Diagnostics& diagnostics) {
  const PathHint hint = nearest_key(hints, {.key = rule.key, .syntax = plan.dialect->keys, .needs_parameters = true});
  if (hint.key.empty() || hint.is_far) return false;
  Diagnostic& d = report_message(diagnostics, plan.dialect->dead_rule, rule.key_span,
                                 fmt::format("rule `{}` matches nothing in this model", rule.key),
                                 fmt::format("did you mean `{}`?", hint.key));
  if (&d != &diagnostics.dropped) d.edits.push_back(rewrite_key(rule, hint.key));
  return true;
}

void report_dead_rule(const TpPlan& plan, PathHints& hints, const RuleScopes& scopes, const PlanRule& rule,
                      Diagnostics& diagnostics) {
  const ModelGraph& graph = hints.graph;
  Diagnostic& d = report_message(diagnostics, plan.dialect->dead_rule, rule.key_span,
                                 fmt::format("rule `{}` matches nothing", rule.key));
  if (&d == &diagnostics.dropped) return;
  d.label = rule.block == kNoRule
                ? fmt::format("0 of {}", counted(graph.params.size(), "parameter"))
                : fmt::format("nothing inside the modules of block `{}`", plan.blocks[rule.block].text);
  if (find_buffer(graph, rule.key) != kNone) d.notes.push_back({"it names a buffer; buffers stay replicated", {}});
  d.help = misplaced_key_help(plan, hints, rule);
  if (d.help.empty()) d.help = type_help(plan, hints, rule);
  if (!d.help.empty()) return;
  const PathSearch search = hint_for(plan, scopes, rule);
  PathHint hint = nearest_key(hints, search);
  hint.paths *= search.bases;
  d.help = notation_help(plan, hints, rule, hint);
  if (!d.help.empty()) return;
  const std::string nearby_help = hint.key.empty() || hint.is_far ? nearby_names_help(hints, search) : "";
  if (!nearby_help.empty()) {
    d.help = nearby_help;
  } else if (!hint.key.empty()) {
    d.help = fmt::format("did you mean `{}`? ({})", hint.key, counted(hint.paths, "path"));
    d.edits.push_back(rewrite_key(rule, hint.key));
  } else {
    d.help = "remove it, or write `optional: true` if other models have this path";
    if (const std::string paths = examples_of_paths(hints, plan.dialect->keys); !paths.empty())
      d.notes.push_back({"the model has paths such as " + paths, {}});
  }
}

// Number of rules, dead for the same cause, from which they become one diagnostic.
constexpr size_t kOneCause = 3;

// Reports, as one diagnostic, keys that differ from the model's paths in the same way, such as a prefix or separator.
void report_changed_paths(const std::vector<const PlanRule*>& rules, const std::vector<PathHint>& keys,
                          Diagnostics& diagnostics) {
  Diagnostic& d =
      report_message(diagnostics, Code::UnmatchedRule, rules[0]->key_span,
                     fmt::format("{} rules match nothing: the model's paths have {}", rules.size(), keys[0].change));
  d.label = "the first of these rules";
  d.help = fmt::format("write `{}`, and change the other keys in the same way", keys[0].key);
  d.count = rules.size();
  d.counted = "rule";
  for (size_t i = 0; i < rules.size(); ++i) d.edits.push_back(rewrite_key(*rules[i], keys[i].key));
}

void report_other_model(const TpPlan& plan, PathHints& hints, size_t rules, Diagnostics& diagnostics) {
  const std::string_view name = hints.graph.name;
  Diagnostic& d = report_message(diagnostics, Code::UnmatchedRule, plan.rules_span,
                                 fmt::format("none of the plan's {} rules matches anything in {}", rules,
                                             name.empty() ? "the model" : fmt::format("`{}`", name)));
  d.label = "is this plan for another model?";
  if (const std::string paths = examples_of_paths(hints, plan.dialect->keys); !paths.empty())
    d.notes.push_back({"the model has paths such as " + paths, {}});
  d.help = "use the plan of this model, or write rules for its paths";
}

void report_dead_rules(const TpPlan& plan, PathHints& hints, const RuleScopes& scopes,
                       std::vector<const PlanRule*> dead, Diagnostics& diagnostics) {
  if (dead.size() >= kOneCause) {
    std::map<std::string, std::pair<std::vector<const PlanRule*>, std::vector<PathHint>>> by_change;
    for (const PlanRule* rule : dead) {
      PathHint hint = nearest_key(hints, hint_for(plan, scopes, *rule));
      if (hint.change.empty()) continue;
      auto& [rules, keys] = by_change[hint.change];
      rules.push_back(rule);
      keys.push_back(std::move(hint));
    }
    for (const auto& [change, group] : by_change) {
      const auto& [rules, keys] = group;
      if (rules.size() < kOneCause) continue;
      report_changed_paths(rules, keys, diagnostics);
      std::erase_if(dead,
                    [&r = rules](const PlanRule* rule) { return std::find(r.begin(), r.end(), rule) != r.end(); });
    }
    if (dead.size() == plan.rules.size()) return report_other_model(plan, hints, dead.size(), diagnostics);
  }
  for (const PlanRule* rule : dead) report_dead_rule(plan, hints, scopes, *rule, diagnostics);
}

// ---- rules keyed by dim names ----

// Returns the distinct dim names in the order of the model.
std::vector<std::string_view> names_of_dims(const ModelGraph& graph) {
  std::vector<std::string_view> names;
  TextMap<std::string_view, bool> known;
  for (const Param& param : graph.params) {
    for (const std::string_view name : logical_axes_of(graph, param)) {
      if (!name.empty() && known.try_emplace(name, true).second) names.push_back(name);
    }
  }
  return names;
}

// Reports dim names that no parameter has. Such lists of rules serve many models and activations too, so these rules
// share one warning, except names that look misspelt.
void report_dead_names(const TpPlan& plan, const ModelGraph& graph, const std::vector<const PlanRule*>& dead,
                       Diagnostics& diagnostics) {
  const std::vector<std::string_view> names = names_of_dims(graph);
  if (dead.size() == plan.rules.size()) {
    Diagnostic& d = report_message(diagnostics, Code::UnmatchedRule, plan.rules_span,
                                   fmt::format("none of the plan's {} rules names a dim of the model", dead.size()));
    d.label = "is this plan for another model?";
    d.help = fmt::format("use the names of its dims: {}",
                         fmt::join(std::span(names).first(std::min<size_t>(names.size(), 8)), ", "));
    return;
  }
  Diagnostic* joined = nullptr;
  std::vector<const PlanRule*> others;
  for (const PlanRule* rule : dead) {
    const std::string_view nearest = nearest_name(rule->key, names);
    if (nearest.empty()) {
      others.push_back(rule);
      continue;
    }
    Diagnostic& d = report_message(diagnostics, Code::UnmatchedShippedRule, rule->key_span,
                                   fmt::format("no parameter has a dim named `{}`", rule->key),
                                   fmt::format("did you mean `{}`?", nearest));
    d.edits.push_back(rewrite_key(*rule, std::string(nearest)));
  }
  for (const PlanRule* rule : others) {
    if (joined != nullptr) {
      joined->notes.push_back({fmt::format("nor a dim named `{}`", rule->key), rule->key_span});
      continue;
    }
    joined = report(diagnostics, Code::UnmatchedShippedRule, rule->key_span, "dead names");
    if (joined == nullptr) return;
    joined->message = fmt::format("no parameter has a dim named `{}`", rule->key);
    joined->help = fmt::format(
        "if the name is for activations, such as the batch, write {{name: {}, axes: ..., optional: true}}", rule->key);
  }
}

std::string why_idle(const PlanRule& rule, const RuleMatches& matches) {
  const std::string over =
      matches.parameters == 1 ? "its one parameter" : fmt::format("all {} parameters", matches.parameters);
  return rule.of_dim ? fmt::format("for {}, an earlier rule applies or already uses its axes", over)
                     : fmt::format("more exact keys take precedence for {}", over);
}

// Adds an edit that removes the rule to its TP4004 diagnostic (duplicate rule).
void propose_removal(const PlanRule& rule, Diagnostics& diagnostics) {
  const auto found = std::find_if(diagnostics.list.begin(), diagnostics.list.end(), [&rule](const Diagnostic& d) {
    return d.code == Code::RedundantRule && d.span.offset == rule.key_span.offset;
  });
  if (found != diagnostics.list.end()) found->edits.push_back({.span = rule.key_span, .text = {}, .is_entry = true});
}

}  // namespace

// A rule is shadowed if it matches parameters and applies to none of them. Rules with a clash are already reported
// (TP4003, TP4004), and rules that affect modules have an effect.
void report_unused_rules(const TpPlan& plan, const ModelGraph& graph, const MatchTable& table,
                         Diagnostics& diagnostics) {
  PathHints hints{.graph = graph, .matches = &table};
  std::vector<const PlanRule*> dead;
  for (RuleId id = 0; id < plan.rules.size(); ++id) {
    const PlanRule& rule = plan.rules[id];
    const RuleMatches& matches = table.rules[id];
    const bool used = matches.addressed || matches.parameters + matches.modules > 0;
    if (!used && !rule.optional) dead.push_back(&rule);
    if (matches.clashes && matches.governed == 0) propose_removal(rule, diagnostics);
    const bool affects_params = rule.style == nullptr || rule.style->touches_parameters;
    if (!used || !affects_params || matches.clashes || matches.governed > 0 || matches.parameters == 0 ||
        matches.modules > 0)
      continue;
    Diagnostic& d = report_message(diagnostics, Code::ShadowedRule, rule.key_span,
                                   fmt::format("rule `{}` has no effect", rule.key));
    d.label = why_idle(rule, matches);
    d.help = "remove it";
    if (!rule.of_dim) d.edits.push_back({.span = rule.key_span, .text = {}, .is_entry = true});
  }
  if (dead.empty()) return;
  if (plan.dialect->keys == KeySyntax::Names) return report_dead_names(plan, graph, dead, diagnostics);
  if (plan.dialect->dead_rule == Code::UnmatchedShippedRule) {
    Diagnostics misspelt;  // behind the one for all others
    for (const PlanRule* rule : dead) {
      if (!report_misspelt_rule(plan, hints, *rule, misspelt)) report_dead_shipped_rule(*rule, diagnostics);
    }
    std::ranges::move(misspelt.list, std::back_inserter(diagnostics.list));
    return;
  }
  Diagnostics unheard;  // discarded: dead blocks are already reported
  report_dead_rules(plan, hints, rule_scopes(plan, graph, unheard), std::move(dead), diagnostics);
}

}  // namespace tpplan
