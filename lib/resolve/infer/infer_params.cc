#include "resolve/infer/infer_params.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <tuple>

#include "model/module_kinds.h"
#include "model/name_subject.h"
#include "resolve/infer/describe_error.h"
#include "resolve/infer/dim_segments.h"
#include "resolve/infer/style_dim.h"
#include "sharding/shard_slice.h"
#include "sharding/tensor_size.h"

namespace tpplan {
namespace {

// Names of dims along which a parameter stacks the layers of a model (nn.scan, nnx.vmap, jax.lax.scan).
constexpr std::string_view kStackDims[] = {"layers", "layer", "stack", "stacked", "blocks", "repeats"};

// Adds the segments of a sharded dim to the sharding.
void add_segments(const InferenceInput& in, RuleId rule, const Module& module, const Param& param, size_t dim,
                  Sharding& sharding) {
  DimSplit split = split_dim(in.plan, in.graph, in.plan.rules[rule], module, param, dim);
  if (split.segments) sharding.segments.push_back(std::move(*split.segments));
}

// ---- one parameter ----

// Reuses the memory of `sharding`, because a model has up to a million parameters.
void replicate(Sharding& sharding, size_t ndim) {
  sharding.spec.resize(ndim);
  for (DimAxes& axes : sharding.spec) axes.clear();
  sharding.segments.clear();
}

PartitionSpec expand(const SpecTemplate& spec, size_t ndim) {
  PartitionSpec expanded = spec.before;
  const size_t written = spec.before.size() + spec.after.size();
  if (spec.has_ellipsis && written < ndim) expanded.resize(ndim - spec.after.size());
  expanded.insert(expanded.end(), spec.after.begin(), spec.after.end());
  return expanded;
}

// Shards each dim by the rule that applies to it.
void shard_by_dims(const InferenceInput& in, const MatchTable& matches, const ParamMatch& match, const Module& module,
                   const Param& param, Sharding& sharding) {
  for (size_t dim = 0; dim < param.ndim; ++dim) {
    const RuleId rule = rule_of_dim(matches, match, dim);
    if (rule == kNoRule) continue;
    sharding.spec[dim] = in.plan.rules[rule].spec->before.front();
    if (!sharding.spec[dim].empty()) add_segments(in, rule, module, param, dim, sharding);
  }
}

// Warns about a spec that is shorter than the parameter and shards the dim of stacked layers: it was written for one
// layer, whose dims are counted from the end.
void check_stacked_dim(const InferenceInput& in, const ParamMatch& match, const Module& module, const Param& param,
                       const Sharding& sharding) {
  const SpecTemplate& spec = *in.plan.rules[match.rule].spec;
  const size_t written = spec.before.size() + spec.after.size();
  if (written >= param.ndim) return;
  const std::span<const std::string_view> dims = dims_of(in.graph, module, param);
  for (size_t dim = 0; dim < dims.size() && dim < sharding.spec.size(); ++dim) {
    if (sharding.spec[dim].empty() || std::ranges::find(kStackDims, dims[dim]) == std::end(kStackDims)) continue;
    Diagnostic* d = report(in.diagnostics, Code::StackedDimSharded, in.plan.rules[match.rule].value_span,
                           fmt::format("{}/{}", match.rule, dim));
    if (d == nullptr) return;
    name_subject(*d, in.graph, param);
    d->counted = "parameter";
    d->message = fmt::format(
        "the spec has entries for {} of the {} dims of `{}`, and shards dim {}, which stacks its "
        "`{}`: each rank would send whole layers to the others",
        written, param.ndim, path_of(in.graph, param), dim, dims[dim]);
    d->help = fmt::format("write an entry for each dim, `null` for `{}`", dims[dim]);
    return;
  }
}

// Shards a replicated parameter by its rule. Returns false, after a report, if the rule does not fit the parameter.
bool shard_by_rule(const InferenceInput& in, const MatchTable& matches, const ParamMatch& match, const Module& module,
                   const Param& param, Sharding& sharding) {
  const PlanRule& rule = in.plan.rules[match.rule];
  if (match.dims != kNone) {
    shard_by_dims(in, matches, match, module, param, sharding);
    return true;
  }
  if (rule.style == nullptr) {
    sharding.spec = expand(*rule.spec, param.ndim);
    for (size_t dim = 0; dim < sharding.spec.size() && sharding.spec.size() == param.ndim; ++dim) {
      if (!sharding.spec[dim].empty()) add_segments(in, match.rule, module, param, dim, sharding);
    }
    check_stacked_dim(in, match, module, param, sharding);
    return true;
  }
  const DialectRow& dialect = *in.plan.dialect;
  if (match.by_module && !dialect.supports_module(in, match, module)) return false;
  if (rule.style->shard_dim.empty()) return true;
  const StyleDim found = dialect.dim_of_style(in, match, module, param);
  if (found.kind == StyleDimKind::Error) return false;
  if (found.kind == StyleDimKind::Replicated) return true;
  sharding.spec[found.dim] = {rule.axis};
  add_segments(in, match.rule, module, param, found.dim, sharding);
  return true;
}

// True if the rule shards the expert dim, which must divide evenly. transformers rejects an uneven split too
// (expert_parallel.py, MoEParamShard), in every module with `num_experts`. These are all experts modules, and others
// that the model file declares.
bool experts_must_divide(const InferenceInput& in, const ParamMatch& match, const Module& module) {
  const StyleRow* style = in.plan.rules[match.rule].style;
  return style != nullptr && style->shard_dim == kDimExpert && has_num_experts(in.graph, module);
}

// Warns about uneven shards of JAX and Keras, which jax.NamedSharding 0.10 and Keras 3.15 reject. tpplan-exec loads
// them.
void warn_uneven(const InferenceInput& in, const ParamMatch& match, const Param& param, const Sharding& sharding) {
  const std::span<const int64_t> shape = shape_of(in.graph, param);
  if (in.plan.uneven == UnevenPolicy::Error || in.graph.framework == Framework::Torch ||
      is_even(shape, sharding, in.plan.mesh))
    return;
  Diagnostic* d = report(in.diagnostics, Code::UnevenGlobalArray, in.plan.rules[match.rule].value_span,
                         fmt::format("{}", match.rule));
  if (d == nullptr) return;
  name_subject(*d, in.graph, param);
  d->counted = "parameter";
  d->message =
      fmt::format("the shards of `{}` {} have different sizes: {} requires equal ones, whatever `uneven` says",
                  path_of(in.graph, param), shape_text(shape), in.graph.framework == Framework::Jax ? "JAX" : "Keras");
  d->help = "use an axis size that divides the dim, or pad the dim";
}

// True if the sharding is legal. Reports its errors.
bool check_param(const InferenceInput& in, const MatchTable& matches, const ParamMatch& match, ParamId id,
                 const Sharding& sharding) {
  const Param& param = in.graph.params[id];
  const std::span<const int64_t> shape = shape_of(in.graph, param);
  const bool strict =
      in.plan.uneven == UnevenPolicy::Error || experts_must_divide(in, match, in.graph.modules[param.module]);
  const auto faults = check_sharding(shape, sharding, in.plan.mesh, strict ? UnevenPolicy::Error : UnevenPolicy::Torch,
                                     granularity_of(in.graph, param));
  const bool follows_framework = in.plan.dialect->follows_framework;
  for (const ShardingError& fault : faults) {
    if (follows_framework && fault.kind == ShardingErrorKind::SplitsGranule) continue;  // check_splits warns about it
    std::ignore = report_sharding_error(fault, in.plan, in.graph, id, rule_of_dim(matches, match, fault.dim), sharding,
                                        match.by_module, !follows_framework, in.diagnostics);
  }
  if (faults.empty()) warn_uneven(in, match, param, sharding);
  return std::all_of(faults.begin(), faults.end(),
                     [](const ShardingError& f) { return f.kind == ShardingErrorKind::SplitsGranule; });
}

// Checks the specs of rules that apply to no parameter: some specs are wrong for any tensor.
void check_idle_specs(const InferenceInput& in, const MatchTable& matches) {
  for (RuleId id = 0; id < in.plan.rules.size(); ++id) {
    const PlanRule& rule = in.plan.rules[id];
    if (rule.style != nullptr || matches.rules[id].governed > 0) continue;
    PartitionSpec spec = rule.spec->before;
    spec.insert(spec.end(), rule.spec->after.begin(), rule.spec->after.end());
    const std::vector<int64_t> empty(spec.size());  // sizes of 0, which any shard count divides
    for (const ShardingError& fault :
         check_sharding(empty, {.spec = spec, .segments = {}}, in.plan.mesh, UnevenPolicy::Torch, {})) {
      if (fault.kind != ShardingErrorKind::AxisTwice) continue;
      report_message(in.diagnostics, Code::AxisUsedTwice, rule.value_span,
                     fmt::format("axis `{}` occurs twice in the spec of `{}`, which applies to no parameter",
                                 axis_name(in.plan.mesh, fault.axis), rule.key),
                     "remove one of the two: an axis can shard only one dim of a tensor, once");
      break;
    }
  }
}

}  // namespace

ShardingTable infer_params(const TpPlan& plan, const ModelGraph& graph, const MatchTable& matches,
                           Diagnostics& diagnostics) {
  ShardingTable table;
  table.params.resize(graph.params.size());
  const InferenceInput in{plan, graph, diagnostics};
  Sharding sharding;
  for (ModuleId module_id = 0; module_id < graph.modules.size(); ++module_id) {
    const Module& module = graph.modules[module_id];
    for (ParamId id = module.first_param; id < module.first_param + module.param_count; ++id) {
      const ParamMatch& match = matches.params[id];
      ParamSharding& result = table.params[id];
      replicate(sharding, graph.params[id].ndim);
      if (match.rule != kNoRule) {
        result.rule = match.rule;
        result.reason = Reason::Rule;
        // Later checks treat a parameter that does not fit as replicated.
        result.fits = shard_by_rule(in, matches, match, module, graph.params[id], sharding) &&
                      check_param(in, matches, match, id, sharding);
        if (!result.fits) replicate(sharding, graph.params[id].ndim);
      }
      result.sharding = intern(table, sharding);
    }
  }
  check_idle_specs(in, matches);
  if (plan.dialect->check_modules != nullptr) plan.dialect->check_modules(in, matches, table);
  return table;
}

}  // namespace tpplan
