#include "match/select_modules.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "match/nearest_path.h"
#include "match/pattern.h"

namespace tpplan {

std::vector<ModuleId> parents_of(const ModelGraph& graph) {
  std::vector<ModuleId> parents(graph.modules.size());
  for (ModuleId id = 0; id < graph.modules.size(); ++id) parents[id] = parent_of(graph, id);
  return parents;
}

std::vector<ModuleId> enclosing_modules(const ModelGraph& graph, const std::vector<ModuleId>& parents, const std::vector<ModuleId>& selected) {
  constexpr ModuleId kUnknown = kNone - 1;
  std::vector<ModuleId> enclosing(graph.modules.size(), kUnknown);
  for (const ModuleId id : selected) enclosing[id] = id;
  std::vector<ModuleId> chain;
  for (ModuleId id = 0; id < graph.modules.size(); ++id) {
    ModuleId at = id;
    for (chain.clear(); at != kNone && enclosing[at] == kUnknown; at = parents[at]) chain.push_back(at);
    for (const ModuleId below : chain) enclosing[below] = at == kNone ? kNone : enclosing[at];
  }
  return enclosing;
}

std::vector<ModuleId> outermost_matches(const ModelGraph& graph, const std::vector<ModuleId>& parents, const ModulePattern& pattern) {
  const std::vector<std::string> expression = {glob_to_regex(pattern.text)};
  const PatternSetPtr set = compile_patterns(expression, PatternAnchor::Whole, nullptr);
  std::vector<ModuleId> matches;
  for (ModuleId id = 0; id < graph.modules.size(); ++id) {
    if (matches_any(*set, graph.modules[id].path)) matches.push_back(id);
  }
  std::vector<bool> is_match(graph.modules.size());
  for (const ModuleId id : matches) is_match[id] = true;
  const auto is_inner = [&](ModuleId id) {
    for (ModuleId at = parents[id]; at != kNone; at = parents[at]) {
      if (is_match[at]) return true;
    }
    return false;
  };
  std::erase_if(matches, is_inner);
  return matches;
}

void report_dead_pattern(const ModelGraph& graph, const ModulePattern& pattern, std::string_view what, Diagnostics& diagnostics) {
  Diagnostic& d = report_message(diagnostics, Code::TP4009, pattern.span, fmt::format("{} `{}` matches no module", what, pattern.text));
  d.help = nearest_path_help(graph, pattern.text, PathsOf::Modules);
  if (d.help.empty()) d.help = "patterns are globs over whole module paths, such as `model.layers.*`";
}

std::vector<ModuleId> select_modules(const ModelGraph& graph, const std::vector<ModulePattern>& patterns, std::string_view what,
                                     Diagnostics& diagnostics) {
  std::vector<ModuleId> selected;
  if (patterns.empty()) return selected;
  const std::vector<ModuleId> parents = parents_of(graph);
  for (const ModulePattern& pattern : patterns) {
    const std::vector<ModuleId> matches = outermost_matches(graph, parents, pattern);
    if (matches.empty()) report_dead_pattern(graph, pattern, what, diagnostics);
    selected.insert(selected.end(), matches.begin(), matches.end());
  }
  std::sort(selected.begin(), selected.end());
  selected.erase(std::unique(selected.begin(), selected.end()), selected.end());
  return selected;
}

}  // namespace tpplan
