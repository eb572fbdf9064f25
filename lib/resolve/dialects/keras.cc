// The keras dialect: keras/src/distribution/distribution_lib.py (LayoutMap) of Keras 3.15. Every key is a regular
// expression. If the model's paths have dots, keys with a `/` are matched against the path with `/` as separator, and
// other keys against the original path.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <optional>
#include <set>

#include "base/keyed_hash.h"
#include "resolve/dialects/shard_by_name.h"
#include "resolve/match/pattern.h"
#include "resolve/match/rule_scopes.h"

namespace tpplan {
namespace {

// Returns a path of any framework with Keras' separator `/`.
std::string slashed(std::string_view path, Framework framework) {
  std::string out(path);
  if (framework != Framework::Keras) std::replace(out.begin(), out.end(), '.', '/');
  return out;
}

bool has_slash(std::string_view key) { return key.find('/') != std::string_view::npos; }

PatternAnchor anchor_of(KerasMatch match) {
  return match == KerasMatch::Fullmatch ? PatternAnchor::Whole
         : match == KerasMatch::Match   ? PatternAnchor::Start
                                        : PatternAnchor::Anywhere;
}

// Constructs that RE2 accepts and Python rejects or interprets differently. Second column: true if the construct has
// its special meaning inside `[...]` too.
constexpr std::pair<std::string_view, bool> kOnlyRe2[] = {
    {"\\z", true}, {"\\p", true},  {"\\P", true}, {"\\Q", true},  {"\\E", true},
    {"\\C", true}, {"\\x{", true}, {"[:", true},  {"(?U", false}, {"{,", false},
};

// Returns the first construct of a key that only RE2 accepts, or an empty text. Includes a second group of the same
// name, which an RE2 set does not reject.
std::string_view only_re2(std::string_view key) {
  std::set<std::string_view> groups;
  bool in_class = false;
  for (size_t i = 0; i < key.size(); ++i) {
    const std::string_view rest = key.substr(i);
    for (const auto& [text, also_in_class] : kOnlyRe2) {
      if (rest.starts_with(text) && (also_in_class || !in_class) && (text != "[:" || in_class))
        return rest.substr(0, text.size());
    }
    if (rest.starts_with("(?P<") && !in_class && rest.size() > 4 && rest[4] >= '0' && rest[4] <= '9')
      return rest.substr(0, 5);
    if (rest.starts_with("(?P<") && !in_class) {
      const std::string_view group = rest.substr(0, rest.find('>'));
      if (!groups.insert(group).second) return group;
    }
    if (key[i] == '\\') {
      ++i;
    } else if (!in_class && key[i] == '[') {
      in_class = true;
      if (i + 1 < key.size() && key[i + 1] == '^') ++i;
      if (i + 1 < key.size() && key[i + 1] == ']') ++i;
    } else if (key[i] == ']') {
      in_class = false;
    }
  }
  return {};
}

// Returns the first class of a key, such as `\w`, that is Unicode in Python and ASCII in RE2; empty if there is none.
std::string_view unicode_class(std::string_view key) {
  for (size_t i = 0; i + 1 < key.size(); ++i) {
    if (key[i] != '\\') continue;
    if (std::string_view("dDwWsSbB").find(key[i + 1]) != std::string_view::npos) return key.substr(i, 2);
    ++i;
  }
  return {};
}

// Returns the first path with a character that Python and RE2 may classify differently; empty if there is none. These
// are non-ASCII characters, and control characters, more of which are spaces in Python.
std::string strange_path(const ModelGraph& graph) {
  const auto is_strange = [](std::string_view path) {
    return std::ranges::any_of(path, [](char c) {
      const auto byte = static_cast<unsigned char>(c);
      return byte < 0x20 || byte > 0x7e;
    });
  };
  for (const Module& module : graph.modules) {
    if (is_strange(module.path)) return std::string(module.path);
  }
  for (const Param& param : graph.params) {
    if (is_strange(param.name)) return path_of(graph, param);
  }
  return "";
}

// Reports keys with such a class if the model has such a path. With printable ASCII paths only, Python and RE2 agree.
void report_unicode_classes(const TpPlan& plan, const ModelGraph& graph, Diagnostics& diagnostics) {
  std::optional<std::string> strange;
  for (const PlanRule& rule : plan.rules) {
    const std::string_view found = unicode_class(rule.key);
    if (found.empty()) continue;
    if (!strange) strange = strange_path(graph);
    if (strange->empty()) return;
    report_message(diagnostics, Code::InvalidPattern, rule.key_span,
                   fmt::format("`{}` covers Unicode in Keras but only ASCII in RE2, and the model has the path `{}`",
                               found, *strange),
                   "list the characters explicitly, such as [0-9A-Za-z_]");
  }
}

struct ScopeKeys {
  std::vector<RuleId> rules;
  TextMap<std::string_view, RuleId> exact;
  PatternSetPtr patterns;  // by index into the scope's rules
};

ScopeKeys make_keys(const TpPlan& plan, const RuleScope& scope, Diagnostics& diagnostics) {
  ScopeKeys keys{.rules = scope.rules, .exact = {}, .patterns = {}};
  std::vector<std::string> written, faults;
  for (const RuleId id : scope.rules) {
    keys.exact.emplace(plan.rules[id].key, id);
    written.push_back(plan.rules[id].key);
  }
  keys.patterns = compile_patterns(written, anchor_of(plan.keras_match), &faults);
  for (const RuleId id : scope.rules) {
    const std::string_view construct = only_re2(plan.rules[id].key);
    if (construct.empty()) continue;
    report_message(
        diagnostics, Code::InvalidPattern, plan.rules[id].key_span,
        fmt::format("Keras and RE2 interpret `{}` differently: Python's re rejects it or reads it as something else",
                    construct),
        "write the key without it");
  }
  for (size_t i = 0; i < faults.size(); ++i) {
    if (faults[i].empty()) continue;
    report_message(diagnostics, Code::InvalidPattern, plan.rules[scope.rules[i]].key_span,
                   fmt::format("key is not a regular expression: {}", faults[i]),
                   regex_help(plan.rules[scope.rules[i]].key, faults[i],
                              "remove lookaround and backreferences, which RE2 does not support"));
  }
  return keys;
}

// Returns the rules that Keras' look-up finds for a path: rules for variables, or rules for module outputs. In
// LayoutMap.__getitem__ a key equal to the path ends the look-up. Otherwise every key is a regular expression, and
// Keras rejects a path with two matches.
std::vector<RuleId> look_up(const ScopeKeys& keys, const TpPlan& plan, Framework framework, std::string_view path,
                            bool over_variables) {
  const auto fits = [&](RuleId id) {
    return (plan.rules[id].style == nullptr || plan.rules[id].style->touches_parameters) == over_variables;
  };
  const std::string in_slashes = slashed(path, framework);
  for (const std::string_view form : {path, std::string_view(in_slashes)}) {
    const auto exact = keys.exact.find(form);
    if (exact != keys.exact.end() && fits(exact->second)) return {exact->second};
  }
  std::vector<RuleId> found;
  std::vector<int> matches;
  const bool has_dots = in_slashes != path;  // false: a single match serves keys with and without `/`
  const auto match_form = [&](std::string_view form, bool of_slashes) {
    find_matches(*keys.patterns, form, matches);
    for (const int i : matches) {
      const RuleId id = keys.rules[static_cast<size_t>(i)];
      if ((!has_dots || has_slash(plan.rules[id].key) == of_slashes) && fits(id)) found.push_back(id);
    }
  };
  match_form(path, false);
  if (has_dots) match_form(in_slashes, true);
  std::sort(found.begin(), found.end());
  return found;
}

void report_ambiguous(const TpPlan& plan, const std::vector<RuleId>& rules, std::string_view path,
                      Diagnostics& diagnostics) {
  const PlanRule& second = plan.rules[rules[1]];
  Diagnostic* d =
      report(diagnostics, Code::ConflictingRules, second.key_span, fmt::format("{}/{}", rules[0], rules[1]));
  if (d == nullptr) return;
  d->parameter = path;
  std::vector<std::string> names;
  for (const RuleId id : rules) names.push_back("`" + plan.rules[id].key + "`");
  d->message = fmt::format("`{}` is matched by {} keys: {}", path, rules.size(), fmt::join(names, ", "));
  d->counted = "parameter";
  d->label = "Keras rejects a path that two keys match";
  d->notes.push_back({fmt::format("`{}` also matches", plan.rules[rules[0]].key), plan.rules[rules[0]].key_span});
  d->help =
      "make the keys mutually exclusive, or write the exact path, which takes precedence over regular expressions";
}

void match_keras(const TpPlan& plan, const ModelGraph& graph, MatchTable& table, Diagnostics& diagnostics, KeyHits*) {
  const RuleScopes scopes = rule_scopes(plan, graph, diagnostics);
  report_unicode_classes(plan, graph, diagnostics);
  std::vector<ScopeKeys> scope_keys(scopes.list.size());
  for (size_t i = 0; i < scope_keys.size(); ++i) {
    if (!scopes.list[i].rules.empty()) scope_keys[i] = make_keys(plan, scopes.list[i], diagnostics);
  }
  const bool over_modules = std::any_of(plan.rules.begin(), plan.rules.end(), [](const PlanRule& r) {
    return r.style != nullptr && !r.style->touches_parameters;
  });
  std::vector<EnclosingScope> enclosing;
  std::string path;
  for (ModuleId id = 0; id < graph.modules.size(); ++id) {
    const Module& module = graph.modules[id];
    enclosing_scopes(graph, scopes, id, enclosing);
    for (const EnclosingScope at : enclosing) {
      const ScopeKeys& keys = scope_keys[at.scope];
      if (over_modules) {
        for (const RuleId rule : look_up(keys, plan, graph.framework, relative_path(graph, at, module.path), false)) {
          ++table.rules[rule].modules;
          table.boundaries.push_back({id, rule});
        }
      }
      for (ParamId param = module.first_param; param < module.first_param + module.param_count; ++param) {
        assign_path(path, graph, graph.params[param]);
        std::vector<RuleId> rules = look_up(keys, plan, graph.framework, relative_path(graph, at, path), true);
        for (const RuleId rule : rules) ++table.rules[rule].parameters;
        if (table.params[param].rule != kNoRule && !rules.empty())
          rules.insert(rules.begin(), table.params[param].rule);
        if (rules.size() > 1) report_ambiguous(plan, rules, path, diagnostics);
        for (size_t i = 1; i < rules.size(); ++i) table.rules[rules[i]].clashes = true;
        if (rules.empty() || table.params[param].rule != kNoRule) continue;
        table.params[param] = {.rule = rules[0], .by_module = false};
        ++table.rules[rules[0]].governed;
      }
    }
  }
}

}  // namespace

constexpr DialectRow kKerasDialect = {.name = "keras",
                                      .keys = KeySyntax::Regex,
                                      .targets = KeyTargets::Parameters,
                                      .slash_is_dot = true,
                                      .reads_keras_match = true,
                                      .match = match_keras,
                                      .supports_module = supports_kind,
                                      .dim_of_style = shard_by_name};

}  // namespace tpplan
