#include "resolve/heuristics/check_splits.h"

#include <spdlog/fmt/fmt.h>

#include <tuple>

#include "model/name_subject.h"
#include "resolve/infer/describe_error.h"
#include "resolve/infer/dim_segments.h"
#include "sharding/check_sharding.h"

namespace tpplan {
namespace {

void report_split_segments(const HeuristicInput& in, RuleId id, const Param& param, size_t dim,
                           const std::string& why) {
  const PlanRule& rule = in.plan.rules[id];
  Diagnostic* d =
      report(in.diagnostics, Code::FrameworkSplitsSegments, rule.value_span, fmt::format("{}/{}", id, param.name));
  if (d == nullptr) return;
  name_subject(*d, in.graph, param);
  d->message = fmt::format("{} shards dim {} of `{}` across segment boundaries: {}",
                           rule.contiguous ? std::string_view("`contiguous: true`") : in.plan.dialect->name, dim,
                           path_of(in.graph, param), why);
  d->counted = "parameter";
  d->notes.push_back({"ranks get rows of one segment but expect a shard of each: wrong values without an error",
                      span_of(in.graph, param)});
  d->help =
      rule.contiguous
          ? "use `fsdp:` if only FSDP shards this dim; otherwise remove `contiguous` to shard each segment separately"
          : "use the glob dialect, which shards each segment separately";
}

void check_segments(const HeuristicInput& in, const Module& module, ParamId id, const Sharding& sharding) {
  const Param& param = in.graph.params[id];
  for (size_t dim = 0; dim < sharding.spec.size(); ++dim) {
    const RuleId rule = rule_of_dim(in.matches, in.matches.params[id], dim);
    if (sharding.spec[dim].empty() || rule == kNoRule || has_walk_error(in, rule)) continue;
    const DimSplit split = split_dim(in.plan, in.graph, in.plan.rules[rule], module, param, dim);
    if (!split.across.empty()) report_split_segments(in, rule, param, dim, split.across);
  }
}

// Reports shards that split an indivisible block of the model file. In dialects that do not follow a framework,
// infer_params rejects such shards already.
void check_blocks(const HeuristicInput& in, ParamId id, const Sharding& sharding) {
  const Param& param = in.graph.params[id];
  const ParamMatch& match = in.matches.params[id];
  for (const ShardingError& fault : check_sharding(shape_of(in.graph, param), sharding, in.plan.mesh,
                                                   UnevenPolicy::Torch, granularity_of(in.graph, param))) {
    const RuleId rule = rule_of_dim(in.matches, match, fault.dim);
    if (fault.kind == ShardingErrorKind::SplitsGranule && !has_walk_error(in, rule))
      std::ignore =
          report_sharding_error(fault, in.plan, in.graph, id, rule, sharding, match.by_module, false, in.diagnostics);
  }
}

}  // namespace

void check_splits(const HeuristicInput& in) {
  const bool follows_framework = in.plan.dialect->follows_framework;
  for (const Module& module : in.graph.modules) {
    for (ParamId id = module.first_param; id < module.first_param + module.param_count; ++id) {
      if (in.matches.params[id].rule == kNoRule || !in.shardings.params[id].fits) continue;
      const Sharding sharding = sharding_by_rule(in.shardings, in.plan, id);
      check_segments(in, module, id, sharding);
      if (follows_framework && in.graph.params[id].extras != kNone) check_blocks(in, id, sharding);
    }
  }
}

}  // namespace tpplan
