#include "match/report_unused_rules.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <map>

#include "base/text.h"
#include "match/decide_dims.h"
#include "match/nearest_path.h"
#include "match/pattern.h"
#include "match/rule_scopes.h"

namespace tpplan {
namespace {

std::string dotted(std::string text) {
  std::replace(text.begin(), text.end(), '/', '.');
  return text;
}

// The first module whose path, or a parameter's path, the key would match as a key of the whole model; kNone when there
// is none, or nobody may look any further. With `in_block`: as a key of the rule's block, which is where it stands.
ModuleId named_module(const TpPlan& plan, PathHints& hints, const PlanRule& rule, bool in_block, bool parameters) {
  const ModelGraph& graph = hints.graph;
  const bool regex = plan.dialect->keys == KeySyntax::Regex, slash_is_dot = plan.dialect->slash_is_dot;
  if (!in_block) {
    if (const ModuleId id = find_module(graph, rule.key); id != kNone) return id;
    if (const ParamId id = parameters ? find_param(graph, rule.key) : kNone; id != kNone)
      return graph.params[id].module;
    if (!regex && !is_glob(rule.key)) return kNone;
  }
  if (!spend_pass(hints)) return kNone;
  const std::string mark = separator(graph.framework) == '.' ? "\\." : "/";
  const std::string before = in_block ? glob_to_regex(plan.blocks[rule.block].text) + mark : "";
  std::vector<std::string> expressions = {before + "(?:" + (regex ? rule.key : glob_to_regex(rule.key)) + ")"};
  if (slash_is_dot) expressions.push_back(dotted(expressions[0]));
  std::vector<std::string> faults;
  const PatternSetPtr set = compile_patterns(expressions, PatternAnchor::Whole, &faults);
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

// What to do about a key that reads as the path of a block's module and what is below it.
std::string absolute_key_help(const TpPlan& plan, const ModelGraph& graph, const PlanRule& rule) {
  const std::string& block = plan.blocks[rule.block].text;
  std::string_view rest = rule.key;
  const char mark = separator(graph.framework);
  for (auto parts = std::count(block.begin(), block.end(), mark) + 1; parts > 0 && !rest.empty(); --parts) {
    const size_t at = rest.find(mark);
    rest = at == std::string_view::npos ? "" : rest.substr(at + 1);
  }
  return rest.empty() || plan.dialect->keys == KeySyntax::Regex
             ? fmt::format("keys of a block are relative to its modules: leave out what leads to `{}`", block)
             : fmt::format("keys of a block are relative to its modules: write `{}`", rest);
}

// What to do about a key that names a module which owns nothing that the key could decide over.
std::string module_key_help(const TpPlan& plan, const ModelGraph& graph, const PlanRule& rule, ModuleId named) {
  const std::string_view path = graph.modules[named].path;
  const auto below = std::find_if(graph.modules.begin(), graph.modules.end(),
                                  [&](const Module& m) { return m.param_count > 0 && is_below(graph, m.path, path); });
  if (below == graph.modules.end()) return fmt::format("`{}` is a module without parameters: remove the rule", path);
  if (plan.dialect->targets == KeyTargets::Parameters) {
    return fmt::format("`{}` is a module, and keys of this dialect name variables: `{}/.*`, or one such as `{}`", path,
                       rule.key, path_of(graph, graph.params[below->first_param]));
  }
  return fmt::format("`{}` is a module without parameters of its own: name a path below it, such as `{}`{}", path,
                     below->path, rule.block == kNoRule ? "" : ", relative to the block's module");
}

// Help for a key that does name something, and yet matches nothing; empty when it does not.
std::string misplaced_key_help(const TpPlan& plan, PathHints& hints, const PlanRule& rule) {
  if (rule.key.empty()) return "";
  const bool in_block = rule.block != kNoRule;
  if (in_block && named_module(plan, hints, rule, false, true) != kNone)
    return absolute_key_help(plan, hints.graph, rule);
  const ModuleId named = named_module(plan, hints, rule, in_block, false);
  const bool modules_alone = plan.dialect->targets == KeyTargets::Modules;
  return named == kNone || modules_alone ? "" : module_key_help(plan, hints.graph, rule, named);
}

// ---- notations ----

// Whether a key, read in the other notation, matches a path.
bool matches_as(PathHints& hints, const std::string& expression) {
  if (!spend_pass(hints)) return false;
  std::vector<std::string> faults;
  const PatternSetPtr set = compile_patterns(std::span(&expression, 1), PatternAnchor::Whole, &faults);
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

// Whether a key is a list of globs, with commas between them.
bool names_several(PathHints& hints, std::string_view key) {
  if (key.find(',') == std::string_view::npos || key.find_first_of("[{") != std::string_view::npos) return false;
  for (std::string_view part : split(key, ',')) {
    part.remove_prefix(std::min(part.find_first_not_of(' '), part.size()));
    part = part.substr(0, part.find_last_not_of(' ') + 1);
    if (part.empty() || !matches_as(hints, glob_to_regex(std::string(part)))) return false;
  }
  return true;
}

// Help for a key that is the type of modules, such as `LlamaAttention`; empty when it is not.
std::string type_help(const TpPlan& plan, PathHints& hints, const PlanRule& rule) {
  const ModelGraph& graph = hints.graph;
  const bool is_class = !rule.key.empty() && rule.key[0] >= 'A' && rule.key[0] <= 'Z' &&
                        rule.key.find_first_of("./*?[") == std::string::npos;
  if (!is_class || !spend_pass(hints)) return "";
  const auto first =
      std::ranges::find_if(graph.modules, [&](const Module& module) { return type_of(graph, module) == rule.key; });
  if (first == graph.modules.end()) return "";
  return fmt::format("`{}` is a type of modules, and keys are paths: `{}` is one of that type", rule.key,
                     pattern_of_path(first->path, graph.framework, plan.dialect->keys));
}

// Help for a key in the notation of another dialect; empty when it is not.
std::string notation_help(const TpPlan& plan, PathHints& hints, const PlanRule& rule, const PathHint& hint) {
  if (rule.block == kNoRule && plan.dialect->keys == KeySyntax::Regex) {
    const std::string regex = glob_as_regex(rule.key);
    return is_glob(rule.key) && regex != rule.key && matches_as(hints, regex)
               ? fmt::format("keys are regular expressions here, and this is a glob: write `{}`", regex)
               : "";
  }
  if (names_several(hints, rule.key)) return "a key is one path or pattern: write one rule for each";
  const size_t brace = rule.key.find('{');
  if (brace != std::string::npos && rule.key.find(',', brace) < rule.key.find('}', brace))
    return "a glob has no `{a,b}`: write one rule for each";
  if (rule.key.find_first_of("\\()|^$+") == std::string::npos || !matches_as(hints, rule.key)) return "";
  return rule.key.find('|') != std::string::npos ? "keys are globs here: write one rule for each, or `dialect: regex`"
         : hint.key.empty()
             ? "keys are globs here, and this is a regular expression: `dialect: regex`"
             : fmt::format("keys are globs here, and this is a regular expression: write `{}`", hint.key);
}

HintFor hint_for(const TpPlan& plan, const RuleScopes& scopes, const PlanRule& rule) {
  const std::vector<ModuleId>* block = rule.block == kNoRule ? nullptr : &scopes.list[1 + rule.block].modules;
  return {.key = rule.key,
          .syntax = rule.block == kNoRule ? plan.dialect->keys : KeySyntax::Glob,
          .parameters = plan.dialect->targets != KeyTargets::Modules,
          .needs_parameters = rule.style == nullptr || rule.style->touches_parameters,
          .base = block == nullptr || block->empty() ? kNone : block->front(),
          .bases = block == nullptr || block->empty() ? 1 : block->size()};
}

// Shipped plans carry rules for other configurations of the model: one warning for all of them.
void report_dead_shipped_rule(const PlanRule& rule, Diagnostics& diagnostics) {
  Diagnostic* d = report(diagnostics, Code::TP4002, rule.key_span, "dead rules");
  if (d == nullptr) {
    const auto first = std::find_if(diagnostics.list.begin(), diagnostics.list.end(),
                                    [](const Diagnostic& other) { return other.code == Code::TP4002; });
    first->notes.push_back({fmt::format("and so does `{}`", rule.key), rule.key_span});
    first->count = 1;
    return;
  }
  d->message = fmt::format("rule `{}` matches nothing in this model", rule.key);
  d->help = "if the model should have it, check the spelling; otherwise mark the rule `optional: true`";
}

// The key in the quotes that its notation needs.
Edit rewrite_key(const PlanRule& rule, const std::string& key) {
  const char quote = key.find('\\') == std::string::npos ? '"' : '\'';
  return {rule.key_span, quote + key + quote};
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
  const HintFor search = hint_for(plan, scopes, rule);
  PathHint hint = nearest_key(hints, search);
  hint.paths *= search.bases;
  d.help = notation_help(plan, hints, rule, hint);
  if (!d.help.empty()) return;
  const std::string beside = hint.key.empty() || hint.is_far ? names_beside_help(hints, search) : "";
  if (!beside.empty()) {
    d.help = beside;
  } else if (!hint.key.empty()) {
    d.help = fmt::format("did you mean `{}`? ({})", hint.key, counted(hint.paths, "path"));
    d.edits.push_back(rewrite_key(rule, hint.key));
  } else {
    d.help = "remove it, or write `optional: true` where other models have it";
    if (const std::string paths = examples_of_paths(hints, plan.dialect->keys); !paths.empty())
      d.notes.push_back({"the model's paths are such as " + paths, {}});
  }
}

// Rules that are dead for one cause, from so many on, are one finding.
constexpr size_t kOneCause = 3;

// Keys that all differ from the model's paths in the same way: a prefix, the separator.
void report_changed_paths(const std::vector<const PlanRule*>& rules, const std::vector<PathHint>& keys,
                          Diagnostics& diagnostics) {
  Diagnostic& d =
      report_message(diagnostics, Code::TP4001, rules[0]->key_span,
                     fmt::format("{} rules match nothing: the model's paths have {}", rules.size(), keys[0].change));
  d.label = "the first of them";
  d.help = fmt::format("write `{}`, and the others alike", keys[0].key);
  d.count = rules.size();
  d.counted = "rule";
  for (size_t i = 0; i < rules.size(); ++i) d.edits.push_back(rewrite_key(*rules[i], keys[i].key));
}

void report_other_model(const TpPlan& plan, PathHints& hints, size_t rules, Diagnostics& diagnostics) {
  const std::string_view name = hints.graph.name;
  Diagnostic& d = report_message(diagnostics, Code::TP4001, plan.rules_span,
                                 fmt::format("none of the plan's {} rules matches anything in {}", rules,
                                             name.empty() ? "the model" : fmt::format("`{}`", name)));
  d.label = "the plan of another model?";
  if (const std::string paths = examples_of_paths(hints, plan.dialect->keys); !paths.empty())
    d.notes.push_back({"the model's paths are such as " + paths, {}});
  d.help = "give the plan of this model, or name its paths";
}

void report_dead_rules(const TpPlan& plan, PathHints& hints, const RuleScopes& scopes,
                       std::vector<const PlanRule*> dead, Diagnostics& diagnostics) {
  if (dead.size() >= kOneCause) {
    std::map<std::string, std::pair<std::vector<const PlanRule*>, std::vector<PathHint>>> alike;
    for (const PlanRule* rule : dead) {
      PathHint hint = nearest_key(hints, hint_for(plan, scopes, *rule));
      if (hint.change.empty()) continue;
      auto& [rules, keys] = alike[hint.change];
      rules.push_back(rule);
      keys.push_back(std::move(hint));
    }
    for (const auto& [change, group] : alike) {
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

// ---- rules over names of dims ----

// Every name of a dim, once, in the order of the model.
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

// A list of rules is for many models, and for values as well: what names no dim of a parameter is one warning, unless
// it looks misspelt.
void report_dead_names(const TpPlan& plan, const ModelGraph& graph, const std::vector<const PlanRule*>& dead,
                       Diagnostics& diagnostics) {
  const std::vector<std::string_view> names = names_of_dims(graph);
  if (dead.size() == plan.rules.size()) {
    Diagnostic& d = report_message(diagnostics, Code::TP4001, plan.rules_span,
                                   fmt::format("none of the plan's {} rules names a dim of the model", dead.size()));
    d.label = "the plan of another model?";
    d.help = fmt::format("its dims are called {}",
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
    Diagnostic& d = report_message(diagnostics, Code::TP4002, rule->key_span,
                                   fmt::format("no dim of a parameter is called `{}`", rule->key),
                                   fmt::format("did you mean `{}`?", nearest));
    d.edits.push_back(rewrite_key(*rule, std::string(nearest)));
  }
  for (const PlanRule* rule : others) {
    if (joined != nullptr) {
      joined->notes.push_back({fmt::format("nor `{}`", rule->key), rule->key_span});
      continue;
    }
    joined = report(diagnostics, Code::TP4002, rule->key_span, "dead names");
    if (joined == nullptr) return;
    joined->message = fmt::format("no dim of a parameter is called `{}`", rule->key);
    joined->help = fmt::format(
        "right where the name is one of values, as of the batch: {{name: {}, axes: ..., optional: true}}", rule->key);
  }
}

std::string why_idle(const PlanRule& rule, const RuleMatches& matches) {
  const std::string over =
      matches.parameters == 1 ? "its one parameter" : fmt::format("all {} parameters", matches.parameters);
  return rule.of_dim ? fmt::format("on {} a rule before it decides, or has its axes", over)
                     : fmt::format("more exact keys win on {}", over);
}

// A rule that says nothing which another does not say may go.
void propose_removal(const PlanRule& rule, Diagnostics& diagnostics) {
  const auto found = std::find_if(diagnostics.list.begin(), diagnostics.list.end(), [&rule](const Diagnostic& d) {
    return d.code == Code::TP4004 && d.span.offset == rule.key_span.offset;
  });
  if (found != diagnostics.list.end()) found->edits.push_back({.span = rule.key_span, .text = {}, .is_entry = true});
}

}  // namespace

// A rule is idle where it names parameters and decides over none of them. Of one that repeats another, or
// contradicts it, that has been said (TP4004, TP4003), and one that acts on modules has that for its work.
void report_unused_rules(const TpPlan& plan, const ModelGraph& graph, const MatchTable& table,
                         Diagnostics& diagnostics) {
  PathHints hints{.graph = graph};
  std::vector<const PlanRule*> dead;
  for (RuleId id = 0; id < plan.rules.size(); ++id) {
    const PlanRule& rule = plan.rules[id];
    const RuleMatches& matches = table.rules[id];
    const bool used = matches.addressed || matches.parameters + matches.modules > 0;
    if (!used && !rule.optional) dead.push_back(&rule);
    if (matches.clashes && matches.governed == 0) propose_removal(rule, diagnostics);
    const bool decides = rule.style == nullptr || rule.style->touches_parameters;
    if (!used || !decides || matches.clashes || matches.governed > 0 || matches.parameters == 0 || matches.modules > 0)
      continue;
    Diagnostic& d = report_message(diagnostics, Code::TP4005, rule.key_span,
                                   fmt::format("rule `{}` decides over nothing", rule.key));
    d.label = why_idle(rule, matches);
    d.help = "remove it";
    if (!rule.of_dim) d.edits.push_back({.span = rule.key_span, .text = {}, .is_entry = true});
  }
  if (dead.empty()) return;
  if (plan.dialect->keys == KeySyntax::Names) return report_dead_names(plan, graph, dead, diagnostics);
  if (plan.dialect->dead_rule == Code::TP4002) {
    for (const PlanRule* rule : dead) report_dead_shipped_rule(*rule, diagnostics);
    return;
  }
  Diagnostics unheard;  // what is wrong with blocks has been said
  report_dead_rules(plan, hints, rule_scopes(plan, graph, unheard), std::move(dead), diagnostics);
}

}  // namespace tpplan
