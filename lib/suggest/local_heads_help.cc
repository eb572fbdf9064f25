#include "suggest/local_heads_help.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "base/starred_path.h"

namespace tpplan {
namespace {

// Returns the nearest module, including `id`, with a number of heads; kNone if there is none.
ModuleId heads_owner(const ModelGraph& graph, ModuleId id) {
  for (; id != kNone; id = parent_of(graph, id)) {
    const uint32_t at = graph.modules[id].attributes;
    if (at != kNone && graph.attributes[at].num_heads > 0) return id;
  }
  return kNone;
}

// Returns the names of the head counts. The names of the code come before those that the model file gives them.
std::vector<std::string> head_counts(const ModuleAttributes& attributes) {
  std::vector<std::string> names;
  std::vector<int64_t> counts = {attributes.num_heads};
  if (attributes.num_kv_heads > 0 && attributes.num_kv_heads != attributes.num_heads)
    counts.push_back(attributes.num_kv_heads);
  for (const int64_t count : counts) {
    const auto is_count = [count](const auto& attribute) {
      return attribute.second == count && attribute.first != "head_dim";
    };
    const auto is_of_code = [&](const auto& attribute) {
      return is_count(attribute) && attribute.first != "num_heads" && attribute.first != "num_kv_heads";
    };
    auto found = std::ranges::find_if(attributes.integers, is_of_code);
    if (found == attributes.integers.end()) found = std::ranges::find_if(attributes.integers, is_count);
    if (found != attributes.integers.end()) names.emplace_back(found->first);
  }
  return names;
}

// True if the check reports the same failure at the same place.
bool has_diagnostic(const Diagnostics& diagnostics, const Diagnostic& finding) {
  return std::ranges::any_of(diagnostics.list, [&](const Diagnostic& other) {
    return other.code == finding.code && other.message == finding.message;
  });
}

}  // namespace

void add_local_heads_help(Checker& checker, const TpPlan& plan, const MatchTable& matches, const WalkOptions& walk,
                          Diagnostic& finding) {
  const ModelGraph& graph = checker.graph;
  if (finding.code != Code::GlobalSizeInView || graph.framework != Framework::Torch || plan.axis == kNoAxis) return;
  const ModuleId owner = heads_owner(graph, find_module(graph, finding.module));
  if (owner == kNone) return;
  const std::string separator = finding.help.empty() ? "" : "; or, ";
  if (std::ranges::count(matches.patterns.local_modules, owner, &LocalModule::module) > 0) {
    finding.help += separator +
                    "list every attribute of heads that the code divides in `local_attributes`, after adding "
                    "it to `attributes` of the model file if it is missing there";
    return;
  }
  TpPlan changed = plan;
  LocalAttributes& added = changed.local_attributes.emplace_back();
  added.pattern.text = starred_path(graph.modules[owner].path);
  const std::vector<std::string> names = head_counts(graph.attributes[graph.modules[owner].attributes]);
  for (const std::string& name : names) added.names.push_back({name, {}});
  Diagnostics trial;
  std::ignore = check_plan(checker, changed, trial, Phase::Operations, walk);
  const bool is_rejected = std::ranges::any_of(
      trial.list, [](const Diagnostic& d) { return d.severity == Severity::Error && d.fails == FirstFailure::None; });
  if (is_rejected || has_diagnostic(trial, finding)) return;
  const bool divides = walk.runtime.value_or(plan.dialect->runtime) == PlanRuntime::Tpplan;
  finding.help += fmt::format("{}{}add `local_attributes: {{\"{}\": [{}]}}`", separator,
                              divides ? "to divide the heads per rank, " : "if the code divides its heads per rank, ",
                              added.pattern.text, fmt::join(names, ", "));
  if (!has_errors(trial)) finding.help += ": this change alone fixes the plan";
}

}  // namespace tpplan
