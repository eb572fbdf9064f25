#include "match/report_unused_rules.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/text.h"
#include "match/nearest_path.h"
#include "match/pattern.h"

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

void report_dead_rule(const TpPlan& plan, PathHints& hints, const PlanRule& rule, Diagnostics& diagnostics) {
  const ModelGraph& graph = hints.graph;
  if (plan.dialect->dead_rule == Code::TP4002) {
    // Shipped plans carry rules for other configurations of the model: one warning for all of them.
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
    return;
  }
  Diagnostic& d = report_message(diagnostics, plan.dialect->dead_rule, rule.key_span,
                                 fmt::format("rule `{}` matches nothing", rule.key));
  if (&d == &diagnostics.dropped) return;
  d.label = rule.block == kNoRule
                ? fmt::format("0 of {}", counted(graph.params.size(), "parameter"))
                : fmt::format("nothing inside the modules of block `{}`", plan.blocks[rule.block].text);
  if (find_buffer(graph, rule.key) != kNone) d.notes.push_back({"it names a buffer; buffers stay replicated", {}});
  const PathsOf paths = rule.block != kNoRule                          ? PathsOf::Block
                        : plan.dialect->targets == KeyTargets::Modules ? PathsOf::Modules
                                                                       : PathsOf::ModulesAndParameters;
  d.help = misplaced_key_help(plan, hints, rule);
  if (d.help.empty()) d.help = nearest_path_help(hints, rule.key, paths);
  if (d.help.empty()) d.help = "mark it `optional: true` if the model may lack it";
}

}  // namespace

// A rule is idle where it names parameters and decides over none of them. One that repeats another has been said to
// (TP4004), and one that acts on modules has that for its work.
void report_unused_rules(const TpPlan& plan, const ModelGraph& graph, const MatchTable& table,
                         Diagnostics& diagnostics) {
  PathHints hints{.graph = graph};
  for (RuleId id = 0; id < plan.rules.size(); ++id) {
    const PlanRule& rule = plan.rules[id];
    const RuleMatches& matches = table.rules[id];
    const bool used = matches.addressed || matches.parameters + matches.modules > 0;
    if (!used && !rule.optional) report_dead_rule(plan, hints, rule, diagnostics);
    const bool decides = rule.style == nullptr || rule.style->touches_parameters;
    if (!used || !decides || matches.repeats || matches.governed > 0 || matches.parameters == 0 || matches.modules > 0)
      continue;
    Diagnostic& d = report_message(diagnostics, Code::TP4005, rule.key_span,
                                   fmt::format("rule `{}` decides over nothing", rule.key));
    d.label = fmt::format("more exact keys win {}", matches.parameters == 1
                                                        ? "on its one parameter"
                                                        : fmt::format("on all {} parameters", matches.parameters));
    d.help = "remove it";
  }
}

}  // namespace tpplan
