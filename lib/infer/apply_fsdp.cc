#include "infer/apply_fsdp.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <numeric>

#include "base/text.h"
#include "match/nearest_path.h"
#include "match/pattern.h"
#include "sharding/check_sharding.h"
#include "sharding/tensor_size.h"

namespace tpplan {
namespace {

// Dims from the largest down, of equal ones the last first.
std::vector<size_t> by_size_down(std::span<const int64_t> sizes) {
  std::vector<size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return sizes[a] < sizes[b]; });
  std::reverse(order.begin(), order.end());
  return order;
}

FsdpChoice largest_dim(std::span<const int64_t> shape, const Sharding& sharding, int64_t ways) {
  for (const size_t dim : by_size_down(shape)) {
    if (divides(ways, shape[dim]) && sharding.spec[dim].empty()) return {FsdpDecision::Sharded, dim};
  }
  return {};
}

FsdpChoice compose(std::span<const int64_t> shape, const Sharding& sharding, const Mesh& mesh, AxisId axis) {
  std::vector<int64_t> left(shape.begin(), shape.end());
  for (size_t dim = 0; dim < left.size(); ++dim) left[dim] /= shard_count(sharding.spec[dim], mesh);
  for (const size_t dim : by_size_down(left)) {
    Sharding candidate = sharding;
    candidate.spec[dim].push_back(axis);
    if (check_sharding(shape, candidate, mesh, UnevenPolicy::Error).empty()) return {FsdpDecision::Sharded, dim};
  }
  return {};
}

// Which parameters `fsdp.patterns` select, by parameter path or the path of the module that owns it.
std::vector<bool> select_params(const TpPlan& plan, const ModelGraph& graph, Diagnostics& diagnostics) {
  const std::vector<ModulePattern>& patterns = plan.fsdp->patterns;
  std::vector<bool> selected(graph.params.size(), patterns.empty());
  if (patterns.empty()) return selected;
  std::vector<std::string> expressions;
  for (const ModulePattern& pattern : patterns) expressions.push_back(glob_to_regex(pattern.text));
  const PatternSetPtr set = compile_patterns(expressions, PatternAnchor::Whole, nullptr);
  std::vector<bool> used(patterns.size());
  std::vector<int> by_module, hits;
  std::string path;
  for (const Module& module : graph.modules) {
    if (module.param_count == 0) continue;
    find_matches(*set, module.path, by_module);
    for (ParamId id = module.first_param; id < module.first_param + module.param_count; ++id) {
      assign_path(path, graph, graph.params[id]);
      find_matches(*set, path, hits);
      for (const auto* list : {&by_module, &hits}) {
        for (const int hit : *list) used[static_cast<size_t>(hit)] = selected[id] = true;
      }
    }
  }
  PathHints hints{.graph = graph};
  for (size_t i = 0; i < patterns.size(); ++i) {
    if (used[i]) continue;
    Diagnostic& d = report_message(diagnostics, Code::TP4009, patterns[i].span,
                                   fmt::format("fsdp pattern `{}` matches no parameter", patterns[i].text));
    d.help = nearest_path_help(hints, patterns[i].text, PathsOf::ModulesAndParameters);
  }
  return selected;
}

void report_decision(const TpPlan& plan, const ModelGraph& graph, ParamId id, const Sharding& sharding,
                     FsdpDecision decision, Diagnostics& diagnostics) {
  const bool scalar = plan.fsdp->policy == FsdpPolicy::Dim0;
  const Code code = decision == FsdpDecision::AlreadyOnAxis ? Code::TP5014 : scalar ? Code::TP5016 : Code::TP5015;
  Diagnostic* d = report(diagnostics, code, plan.fsdp->span, "fsdp");
  if (d == nullptr) return;
  const std::string& axis = plan.mesh.axes[plan.fsdp->axis].name;
  const std::string path = path_of(graph, graph.params[id]), shape = shape_text(shape_of(graph, graph.params[id]));
  const std::string spec = to_text(sharding.spec, plan.mesh);
  d->counted = "parameter";
  if (code == Code::TP5014) {
    d->message = fmt::format("`{}` {} is on axis `{}` already: {}", path, shape, axis, spec);
    d->help = "leave it out of `fsdp.patterns`, or shard it over another axis";
  } else if (code == Code::TP5015) {
    d->message = fmt::format("no dim of `{}` {} with {} is left for `{}` ({}): a dim must be uncut and divide", path,
                             shape, spec, axis, plan.mesh.axes[plan.fsdp->axis].size);
    d->label = "stays as it is";
    d->help = plan.fsdp->policy == FsdpPolicy::Compose
                  ? "use an axis size that divides"
                  : "`policy: compose` may cut a dim again, or use an axis size that divides";
  } else {
    d->message = fmt::format("`{}` is a scalar, and dim0 cuts dim 0 of every parameter", path);
    d->help = "make it a tensor of shape [1], or leave it out of `fsdp.patterns`";
  }
}

}  // namespace

FsdpChoice choose_fsdp_dim(std::span<const int64_t> shape, const Sharding& sharding, const Mesh& mesh,
                           const FsdpSettings& fsdp) {
  if (uses_axis(sharding.spec, fsdp.axis)) return {FsdpDecision::AlreadyOnAxis};
  if (fsdp.policy == FsdpPolicy::Dim0) return shape.empty() ? FsdpChoice{} : FsdpChoice{FsdpDecision::Sharded, 0};
  if (elements_of(shape) <= static_cast<uint64_t>(fsdp.min_weight_size)) return {FsdpDecision::TooSmall};
  return fsdp.policy == FsdpPolicy::LargestDim ? largest_dim(shape, sharding, mesh.axes[fsdp.axis].size)
                                               : compose(shape, sharding, mesh, fsdp.axis);
}

void apply_fsdp(const TpPlan& plan, const ModelGraph& graph, ShardingTable& table, Diagnostics& diagnostics) {
  if (!plan.fsdp) return;
  const std::vector<bool> selected = select_params(plan, graph, diagnostics);
  std::vector<ParamId> leader(graph.ties.empty() ? 0 : graph.params.size(), kNone);
  for (const auto& [follower, first] : table.followers) leader[follower] = first;
  for (ParamId id = 0; id < table.params.size(); ++id) {
    if (!leader.empty() && leader[id] != kNone) continue;
    ParamSharding& result = table.params[id];
    const Sharding& sharding = table.shardings[result.sharding];
    const FsdpChoice choice = selected[id]
                                  ? choose_fsdp_dim(shape_of(graph, graph.params[id]), sharding, plan.mesh, *plan.fsdp)
                                  : FsdpChoice{FsdpDecision::NotSelected};
    result.fsdp = choice.decision;
    if (choice.decision == FsdpDecision::AlreadyOnAxis || choice.decision == FsdpDecision::NoDim)
      report_decision(plan, graph, id, sharding, choice.decision, diagnostics);
    if (choice.decision != FsdpDecision::Sharded) continue;
    Sharding cut = sharding;
    cut.spec[choice.dim].push_back(plan.fsdp->axis);
    result.sharding = intern(table, cut);
    result.reason = result.reason == Reason::Rule ? Reason::RuleAndFsdp : Reason::Fsdp;
  }
  for (const auto& [follower, first] : table.followers) {
    ParamSharding& result = table.params[follower];
    const ParamSharding& of = table.params[first];
    result.sharding = of.sharding;
    result.fsdp = of.fsdp;
    if (result.reason != Reason::Tied && of.fsdp == FsdpDecision::Sharded)
      result.reason = result.reason == Reason::Rule ? Reason::RuleAndFsdp : Reason::Fsdp;
  }
}

}  // namespace tpplan
