#include "resolve/match/match_patterns.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "resolve/match/match_local_attributes.h"
#include "resolve/match/nearest_path.h"
#include "resolve/match/pattern.h"
#include "resolve/match/select_modules.h"

namespace tpplan {
namespace {

// Globs that match parameters by the path of the parameter or of its module.
struct ParamPatterns {
  PatternSetPtr set;
  std::string path;
  std::vector<int> hits, module_hits;
  ModuleId module = kNone;  // module that `module_hits` belongs to
};

ParamPatterns compile_param_globs(const std::vector<std::string_view>& globs) {
  const std::vector<std::string> texts(globs.begin(), globs.end());
  return {.set = compile_globs(texts), .path = {}, .hits = {}, .module_hits = {}};
}

// Returns the patterns that match a parameter or buffer, ascending and unique. The matches of its module are cached,
// because parameters of a module are consecutive.
const std::vector<int>& find_patterns(ParamPatterns& patterns, const ModelGraph& graph, const Param& param) {
  assign_path(patterns.path, graph, param);
  find_matches(*patterns.set, patterns.path, patterns.hits);
  if (patterns.module != param.module)
    find_matches(*patterns.set, graph.modules[param.module].path, patterns.module_hits);
  patterns.module = param.module;
  if (patterns.module_hits.empty()) return patterns.hits;
  patterns.hits.insert(patterns.hits.end(), patterns.module_hits.begin(), patterns.module_hits.end());
  std::sort(patterns.hits.begin(), patterns.hits.end());
  patterns.hits.erase(std::unique(patterns.hits.begin(), patterns.hits.end()), patterns.hits.end());
  return patterns.hits;
}

// Reports a pattern that matches no parameter.
void report_dead_param_pattern(PathHints& hints, Code code, const ModulePattern& pattern, std::string message,
                               Diagnostics& diagnostics) {
  Diagnostic& d = report_message(diagnostics, code, pattern.span, std::move(message));
  if (&d == &diagnostics.dropped) return;
  d.help = nearest_path_help(hints, {.key = pattern.text});
  if (d.help.empty()) d.help = "write a glob over full paths of parameters or modules, such as `*.weight`";
}

void match_fsdp_params(const FsdpSettings& fsdp, const ModelGraph& graph, PatternMatches& matches,
                       Diagnostics& diagnostics) {
  if (fsdp.patterns.empty()) return;
  matches.fsdp_params.resize(graph.params.size());
  matches.of_fsdp_patterns.resize(fsdp.patterns.size());
  std::vector<std::string_view> globs;
  for (const ModulePattern& pattern : fsdp.patterns) globs.push_back(pattern.text);
  ParamPatterns patterns = compile_param_globs(globs);
  for (ParamId id = 0; id < graph.params.size(); ++id) {
    for (const int hit : find_patterns(patterns, graph, graph.params[id])) {
      ++matches.of_fsdp_patterns[static_cast<size_t>(hit)].matched;
      matches.fsdp_params[id] = true;
    }
  }
  PathHints hints{.graph = graph};
  for (size_t i = 0; i < fsdp.patterns.size(); ++i) {
    if (matches.of_fsdp_patterns[i].matched > 0) continue;
    report_dead_param_pattern(hints, Code::UnmatchedPattern, fsdp.patterns[i],
                              fmt::format("fsdp pattern `{}` matches no parameter", fsdp.patterns[i].text),
                              diagnostics);
  }
}

// Matches the entries of `init`. Hits are ascending in plan order, so the first hit is the entry that applies.
void match_init(const TpPlan& plan, const ModelGraph& graph, PatternMatches& matches, Diagnostics& diagnostics) {
  if (plan.init.empty()) return;
  matches.of_init.resize(plan.init.size());
  std::vector<std::string_view> globs;
  for (const InitEntry& entry : plan.init) globs.push_back(entry.pattern.text);
  ParamPatterns patterns = compile_param_globs(globs);
  const auto match_all = [&](const std::vector<Param>& params, std::vector<uint32_t>& entries) {
    for (const Param& param : params) {
      const std::vector<int>& hits = find_patterns(patterns, graph, param);
      for (const int hit : hits) ++matches.of_init[static_cast<size_t>(hit)].matched;
      entries.push_back(hits.empty() ? kNone : static_cast<uint32_t>(hits.front()));
      if (!hits.empty()) ++matches.of_init[entries.back()].first;
    }
  };
  match_all(graph.params, matches.init_params);
  match_all(graph.buffers, matches.init_buffers);
  PathHints hints{.graph = graph};
  for (size_t i = 0; i < plan.init.size(); ++i) {
    if (matches.of_init[i].matched > 0) continue;
    report_dead_param_pattern(
        hints, Code::UnusedInitPattern, plan.init[i].pattern,
        fmt::format("init pattern `{}` matches no parameter or buffer", plan.init[i].pattern.text), diagnostics);
  }
}

}  // namespace

PatternMatches match_patterns(const TpPlan& plan, const ModelGraph& graph, Diagnostics& diagnostics) {
  PatternMatches matches;
  if (plan.fsdp) {
    match_fsdp_params(*plan.fsdp, graph, matches, diagnostics);
    matches.fsdp_units = select_modules(graph, plan.fsdp->units, "fsdp unit", matches.of_fsdp_units, diagnostics);
  }
  matches.remat = select_modules(graph, plan.remat, "remat pattern", matches.of_remat, diagnostics);
  matches.local_modules = match_local_attributes(plan, graph, diagnostics);
  match_init(plan, graph, matches, diagnostics);
  return matches;
}

std::string dump(const PatternMatches& patterns, const TpPlan& plan, const ModelGraph& graph) {
  std::string out;
  const auto counts = [&](std::string_view what, const std::vector<ModulePattern>& of,
                          const std::vector<PatternCount>& list) {
    for (size_t i = 0; i < list.size(); ++i)
      out += fmt::format("{} {}: {} matched\n", what, of[i].text, list[i].matched);
  };
  const auto entry = [&](const Param& param, uint32_t at) {
    if (at != kNone) out += fmt::format("init {}: {}\n", path_of(graph, param), plan.init[at].pattern.text);
  };
  for (ParamId id = 0; id < patterns.fsdp_params.size(); ++id) {
    if (!patterns.fsdp_params[id]) out += fmt::format("fsdp leaves out {}\n", path_of(graph, graph.params[id]));
  }
  for (const ModuleId id : patterns.fsdp_units) out += fmt::format("fsdp unit {}\n", graph.modules[id].path);
  for (const ModuleId id : patterns.remat) out += fmt::format("remat {}\n", graph.modules[id].path);
  for (const LocalModule& module : patterns.local_modules) {
    out += fmt::format("local attributes of {}:", graph.modules[module.module].path);
    for (const auto& [name, value] : module.divided) out += fmt::format(" {}={}", name, value);
    out += '\n';
  }
  for (ParamId id = 0; id < patterns.init_params.size(); ++id) entry(graph.params[id], patterns.init_params[id]);
  for (size_t i = 0; i < patterns.init_buffers.size(); ++i) entry(graph.buffers[i], patterns.init_buffers[i]);
  if (plan.fsdp) {
    counts("fsdp pattern", plan.fsdp->patterns, patterns.of_fsdp_patterns);
    counts("fsdp unit pattern", plan.fsdp->units, patterns.of_fsdp_units);
  }
  counts("remat pattern", plan.remat, patterns.of_remat);
  for (size_t i = 0; i < patterns.of_init.size(); ++i) {
    out += fmt::format("init pattern {}: {} matched, {} first\n", plan.init[i].pattern.text,
                       patterns.of_init[i].matched, patterns.of_init[i].first);
  }
  return out;
}

}  // namespace tpplan
