#include "resolve/infer/apply_fsdp.h"

#include <spdlog/fmt/fmt.h>

#include "model/name_subject.h"
#include "sharding/check_sharding.h"
#include "sharding/tensor_size.h"

namespace tpplan {
namespace {

void report_decision(const TpPlan& plan, const ModelGraph& graph, ParamId id, const Sharding& sharding,
                     FsdpDecision decision, Diagnostics& diagnostics) {
  const FsdpPolicyRow& policy = *plan.fsdp->policy;
  const Code code = decision == FsdpDecision::AlreadyOnAxis ? Code::AlreadyOnFsdpAxis : policy.no_dim;
  Diagnostic* d = report(diagnostics, code, plan.fsdp->span, "fsdp");
  if (d == nullptr) return;
  const std::string& axis = axis_name(plan.mesh, plan.fsdp->axis);
  const std::string path = path_of(graph, graph.params[id]), shape = shape_text(shape_of(graph, graph.params[id]));
  const std::string spec = to_text(sharding.spec, plan.mesh);
  name_subject(*d, graph, graph.params[id]);
  d->counted = "parameter";
  if (code == Code::AlreadyOnFsdpAxis) {
    d->message = fmt::format("`{}` {} is already sharded over axis `{}`: {}", path, shape, axis, spec);
    d->help = "exclude it from `fsdp.patterns`, or shard it over another axis";
    return;
  }
  d->help = policy.no_dim_help;
  if (code == Code::ScalarUnderFsdp) {
    d->message = fmt::format("`{}` is a scalar, but {} shards dim 0 of every parameter", path, policy.name);
    return;
  }
  d->message =
      fmt::format("no dim of `{}` {} with {} can be sharded over `{}` ({}): each is already sharded or not divisible",
                  path, shape, spec, axis, plan.mesh.axes[plan.fsdp->axis].size);
  d->label = "stays without FSDP sharding";
}

}  // namespace

FsdpChoice choose_fsdp_dim(std::span<const int64_t> shape, const Sharding& sharding, const Mesh& mesh,
                           const FsdpSettings& fsdp) {
  if (uses_axis(sharding.spec, fsdp.axis)) return {FsdpDecision::AlreadyOnAxis};
  const bool may_be_small = !fsdp.policy->has_minimum_size;
  if (!may_be_small && elements_of(shape) <= static_cast<uint64_t>(fsdp.min_weight_size))
    return {FsdpDecision::TooSmall};
  const std::optional<size_t> dim =
      fsdp.policy->choose({.shape = shape, .sharding = sharding, .mesh = mesh, .axis = fsdp.axis});
  return dim ? FsdpChoice{FsdpDecision::Sharded, *dim} : FsdpChoice{};
}

void apply_fsdp(const TpPlan& plan, const ModelGraph& graph, const MatchTable& matches, ShardingTable& table,
                Diagnostics& diagnostics) {
  if (!plan.fsdp) return;
  // A pattern that selects one name of a tied tensor selects the tensor.
  std::vector<bool> selected = matches.patterns.fsdp_params;
  std::vector<ParamId> leader(graph.ties.empty() ? 0 : graph.params.size(), kNone);
  for (const auto& [follower, first] : table.followers) {
    leader[follower] = first;
    if (!selected.empty() && selected[follower]) selected[first] = true;
  }
  for (ParamId id = 0; id < table.params.size(); ++id) {
    if (!leader.empty() && leader[id] != kNone) continue;
    ParamSharding& result = table.params[id];
    const Sharding& sharding = table.shardings[result.sharding];
    const FsdpChoice choice = selected.empty() || selected[id]
                                  ? choose_fsdp_dim(shape_of(graph, graph.params[id]), sharding, plan.mesh, *plan.fsdp)
                                  : FsdpChoice{FsdpDecision::NotSelected};
    result.fsdp = choice.decision;
    if (choice.decision == FsdpDecision::AlreadyOnAxis || choice.decision == FsdpDecision::NoDim)
      report_decision(plan, graph, id, sharding, choice.decision, diagnostics);
    if (choice.decision != FsdpDecision::Sharded) continue;
    Sharding sharded = sharding;
    // The fsdp axis is minor to the rule's axes, because FSDP shards the local shard of a tp rank. If it precedes them
    // in the mesh, this is torch's _StridedShard (FSDPParam in torch 2.13, _fsdp_param.py).
    sharded.spec[choice.dim].push_back(plan.fsdp->axis);
    result.sharding = intern(table, sharded);
    result.reason = result.reason == Reason::Rule ? Reason::RuleAndFsdp : Reason::Fsdp;
  }
  // Followers come after all leaders, because a leader may have a higher id than its followers.
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
