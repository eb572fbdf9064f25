#include "resolve/match/select_modules.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "resolve/match/pattern.h"

namespace tpplan {

std::vector<std::vector<ModuleId>> outermost_matches(const ModelGraph& graph, std::span<const ModulePattern> patterns) {
  std::vector<std::vector<ModuleId>> matches(patterns.size());
  std::vector<size_t> globs;
  std::vector<std::string> expressions;
  for (size_t i = 0; i < patterns.size(); ++i) {
    if (is_glob(patterns[i].text)) {
      globs.push_back(i);
      expressions.push_back(patterns[i].text);
    } else if (const ModuleId id = find_module(graph, patterns[i].text); id != kNone) {
      matches[i].push_back(id);
    }
  }
  if (globs.empty()) return matches;
  const PatternSetPtr set = compile_globs(expressions);
  std::vector<int> hits;
  for (ModuleId id = 0; id < graph.modules.size(); ++id) {
    find_matches(*set, graph.modules[id].path, hits);
    for (const int hit : hits) matches[globs[static_cast<size_t>(hit)]].push_back(id);
  }
  // Marks store the index of the pattern, so they are not cleared between patterns. Each match costs the tree's depth.
  std::vector<size_t> matched_by(graph.modules.size(), patterns.size());  // by module: last pattern that matched it
  for (const size_t glob : globs) {
    for (const ModuleId id : matches[glob]) matched_by[id] = glob;
    std::erase_if(matches[glob], [&](ModuleId id) {
      for (ModuleId at = parent_of(graph, id); at != kNone; at = parent_of(graph, at)) {
        if (matched_by[at] == glob) return true;
      }
      return false;
    });
  }
  return matches;
}

void report_dead_pattern(PathHints& hints, const ModulePattern& pattern, std::string_view what,
                         Diagnostics& diagnostics) {
  Diagnostic& d = report_message(diagnostics, Code::UnmatchedPattern, pattern.span,
                                 fmt::format("{} `{}` matches no module", what, pattern.text));
  if (&d == &diagnostics.dropped) return;
  d.help = nearest_path_help(hints, {.key = pattern.text, .parameters = false});
  if (d.help.empty()) d.help = "write a glob over full module paths, such as `model.layers.*`";
}

std::vector<ModuleId> select_modules(const ModelGraph& graph, const std::vector<ModulePattern>& patterns,
                                     std::string_view what, std::vector<PatternCount>& counts,
                                     Diagnostics& diagnostics) {
  std::vector<ModuleId> selected;
  counts.resize(patterns.size());
  if (patterns.empty()) return selected;
  const std::vector<std::vector<ModuleId>> matches = outermost_matches(graph, patterns);
  PathHints hints{.graph = graph};
  for (size_t i = 0; i < patterns.size(); ++i) {
    counts[i].matched = matches[i].size();
    if (matches[i].empty()) report_dead_pattern(hints, patterns[i], what, diagnostics);
    selected.insert(selected.end(), matches[i].begin(), matches[i].end());
  }
  std::sort(selected.begin(), selected.end());
  selected.erase(std::unique(selected.begin(), selected.end()), selected.end());
  return selected;
}

}  // namespace tpplan
