#include "infer/infer_params.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "infer/describe_fault.h"
#include "infer/style_cut.h"
#include "model/module_kinds.h"
#include "sharding/shard_slice.h"
#include "sharding/tensor_size.h"

namespace tpplan {
namespace {

// ---- fused dims ----

// Segments of a dim by the model file: the parameter's own, or for a bias those of the weight beside it.
const DimSegments* declared_segments(const ModelGraph& graph, const Module& module, const Param& param, size_t dim) {
  const auto own = [&](const Param& p, size_t d) -> const DimSegments* {
    if (p.extras == kNone) return nullptr;
    for (const DimSegments& segments : graph.extras[p.extras].segments) {
      if (segments.dim == d) return &segments;
    }
    return nullptr;
  };
  if (graph.extras.empty()) return nullptr;
  if (const DimSegments* segments = own(param, dim)) return segments;
  if (param.ndim != 1) return nullptr;
  const std::span<const std::string_view> dims = dims_of(graph, module, param);
  for (const Param& sibling : params_of(graph, module)) {
    const int same = dims.empty() || &sibling == &param ? -1 : find_dim(dims_of(graph, module, sibling), dims[dim]);
    if (same < 0) continue;
    const DimSegments* segments = own(sibling, static_cast<size_t>(same));
    const bool same_size = shape_of(graph, sibling)[static_cast<size_t>(same)] == shape_of(graph, param)[dim];
    if (segments != nullptr && same_size) return segments;
  }
  return nullptr;
}

DimSegments packed(int64_t size, size_t dim, uint8_t count) {
  DimSegments segments{.dim = dim, .sizes = {}};
  for (int64_t i = 0; i < count; ++i) segments.sizes.push_back(length(chunk({0, size}, count, i)));
  return segments;
}

void warn_across_segments(const Inference& in, const ParamMatch& match, const Param& param, size_t dim,
                          std::string why) {
  const PlanRule& rule = in.plan.rules[match.rule];
  Diagnostic* d = report(in.diagnostics, Code::TP5013, rule.value_span, fmt::format("{}/{}", match.rule, param.name));
  if (d == nullptr) return;
  d->message = fmt::format("{} cuts dim {} of `{}` as one piece: {}",
                           rule.contiguous ? std::string_view("`contiguous: true`") : in.plan.dialect->name, dim,
                           path_of(in.graph, param), why);
  d->counted = "parameter";
  d->notes.push_back({"ranks get rows of one segment where they expect a part of each: wrong values, no error",
                      span_of(in.graph, param)});
  d->help = rule.contiguous ? "right where only FSDP cuts, which `fsdp:` says; else remove `contiguous`: each segment "
                              "is cut by itself then"
                            : "in the glob dialect each segment is cut by itself";
}

// The segments that the cut of a dim respects.
void add_segments(const Inference& in, const ParamMatch& match, const Module& module, const Param& param, size_t dim,
                  Sharding& sharding) {
  const PlanRule& rule = in.plan.rules[match.rule];
  const DimSegments* declared = declared_segments(in.graph, module, param, dim);
  const uint8_t packing = rule.style == nullptr ? 1 : rule.style->packed_segments;
  const int64_t size = shape_of(in.graph, param)[dim];
  if (rule.contiguous) {
    if (declared != nullptr)
      warn_across_segments(in, match, param, dim, fmt::format("its segments are {}", shape_text(declared->sizes)));
    return;
  }
  if (!in.plan.dialect->follows_framework) {
    if (declared != nullptr)
      sharding.segments.push_back({.dim = dim, .sizes = declared->sizes});
    else if (packing > 1)
      sharding.segments.push_back(packed(size, dim, packing));
    return;
  }
  // transformers packs weights, and leaves a packed bias in one piece.
  if (packing > 1 && param.ndim > 1) {
    sharding.segments.push_back(packed(size, dim, packing));
    if (declared != nullptr && declared->sizes != sharding.segments.back().sizes) {
      warn_across_segments(in, match, param, dim,
                           fmt::format("two halves, where the model has segments {}", shape_text(declared->sizes)));
    }
  } else if (packing > 1) {
    warn_across_segments(in, match, param, dim, "unlike the packed weight beside it");
  } else if (declared != nullptr) {
    warn_across_segments(in, match, param, dim, fmt::format("its segments are {}", shape_text(declared->sizes)));
  }
}

// ---- one parameter ----

PartitionSpec expand(const SpecTemplate& spec, size_t ndim) {
  PartitionSpec expanded = spec.before;
  const size_t written = spec.before.size() + spec.after.size();
  if (spec.has_ellipsis && written < ndim) expanded.resize(ndim - spec.after.size());
  expanded.insert(expanded.end(), spec.after.begin(), spec.after.end());
  return expanded;
}

// Each dim by its own rule.
void shard_by_dims(const Inference& in, const MatchTable& matches, const ParamMatch& match, const Module& module,
                   const Param& param, Sharding& sharding) {
  sharding.spec = replicated_spec(param.ndim);
  for (size_t dim = 0; dim < param.ndim; ++dim) {
    const RuleId rule = rule_of_dim(matches, match, dim);
    if (rule == kNoRule) continue;
    sharding.spec[dim] = in.plan.rules[rule].spec->before.front();
    if (!sharding.spec[dim].empty()) add_segments(in, {.rule = rule}, module, param, dim, sharding);
  }
}

// False when the rule does not fit the parameter at all; the reason has been reported.
bool shard_by_rule(const Inference& in, const MatchTable& matches, const ParamMatch& match, const Module& module,
                   const Param& param, Sharding& sharding) {
  const PlanRule& rule = in.plan.rules[match.rule];
  sharding.segments.clear();
  if (match.dims != kNone) {
    shard_by_dims(in, matches, match, module, param, sharding);
    return true;
  }
  if (rule.style == nullptr) {
    sharding.spec = expand(*rule.spec, param.ndim);
    for (size_t dim = 0; dim < sharding.spec.size() && sharding.spec.size() == param.ndim; ++dim) {
      if (!sharding.spec[dim].empty()) add_segments(in, match, module, param, dim, sharding);
    }
    return true;
  }
  sharding.spec = replicated_spec(param.ndim);
  const DialectRow& dialect = *in.plan.dialect;
  if (match.by_module && !dialect.supports_module(in, match, module)) return false;
  if (rule.style->cut_dim.empty()) return true;
  const Cut cut = dialect.cut(in, match, module, param);
  if (cut.kind == CutKind::Fault) return false;
  if (cut.kind == CutKind::Whole) return true;
  sharding.spec[cut.dim] = {rule.axis};
  add_segments(in, match, module, param, cut.dim, sharding);
  return true;
}

// Whole experts only: a style that cuts experts refuses an uneven split of them in transformers too
// (expert_parallel.py, MoEParamShard), in every module that has a `num_experts`: all experts do, and what else the
// model file says.
bool experts_must_divide(const Inference& in, const ParamMatch& match, const Module& module) {
  const StyleRow* style = in.plan.rules[match.rule].style;
  return style != nullptr && style->cut_dim == kDimExpert && has_num_experts(in.graph, module);
}

// True when the sharding is legal; otherwise its faults have been reported.
bool check_param(const Inference& in, const MatchTable& matches, const ParamMatch& match, ParamId id,
                 const Sharding& sharding) {
  const Param& param = in.graph.params[id];
  std::vector<DimGranularity> granularity;
  if (param.extras != kNone) {
    for (const auto& [dim, granule] : in.graph.extras[param.extras].granularity) granularity.push_back({dim, granule});
  }
  const std::span<const int64_t> shape = shape_of(in.graph, param);
  const bool strict =
      in.plan.uneven == UnevenPolicy::Error || experts_must_divide(in, match, in.graph.modules[param.module]);
  const auto faults =
      check_sharding(shape, sharding, in.plan.mesh, strict ? UnevenPolicy::Error : UnevenPolicy::Torch, granularity);
  for (const ShardingFault& fault : faults) {
    report_sharding_fault(fault, in.plan, in.graph, id, rule_of_dim(matches, match, fault.dim), sharding,
                          match.by_module, !in.plan.dialect->follows_framework, in.diagnostics);
  }
  return std::all_of(faults.begin(), faults.end(),
                     [](const ShardingFault& f) { return f.kind == ShardingFaultKind::CutsGranule; });
}

// A spec that no tensor can have is wrong, though its rule decides over none.
void check_idle_specs(const Inference& in, const MatchTable& matches) {
  for (RuleId id = 0; id < in.plan.rules.size(); ++id) {
    const PlanRule& rule = in.plan.rules[id];
    if (rule.style != nullptr || matches.rules[id].governed > 0) continue;
    PartitionSpec spec = rule.spec->before;
    spec.insert(spec.end(), rule.spec->after.begin(), rule.spec->after.end());
    const std::vector<int64_t> empty(spec.size());  // which every number of ways divides
    for (const ShardingFault& fault :
         check_sharding(empty, {.spec = spec, .segments = {}}, in.plan.mesh, UnevenPolicy::Torch, {})) {
      if (fault.kind != ShardingFaultKind::AxisTwice) continue;
      report_message(in.diagnostics, Code::TP5004, rule.value_span,
                     fmt::format("axis `{}` stands twice in the spec of `{}`, which decides over no parameter",
                                 axis_name(in.plan.mesh, fault.axis), rule.key),
                     "an axis can cut one dim of a tensor, once");
      break;
    }
  }
}

}  // namespace

ShardingTable infer_params(const TpPlan& plan, const ModelGraph& graph, const MatchTable& matches,
                           Diagnostics& diagnostics) {
  ShardingTable table;
  table.params.resize(graph.params.size());
  const Inference in{plan, graph, diagnostics};
  Sharding sharding;
  for (ModuleId module_id = 0; module_id < graph.modules.size(); ++module_id) {
    const Module& module = graph.modules[module_id];
    for (ParamId id = module.first_param; id < module.first_param + module.param_count; ++id) {
      const ParamMatch& match = matches.params[id];
      ParamSharding& result = table.params[id];
      sharding = {.spec = replicated_spec(graph.params[id].ndim), .segments = {}};
      if (match.rule != kNoRule) {
        result.rule = match.rule;
        result.reason = Reason::Rule;
        // What does not fit counts as whole in the checks that follow.
        result.fits = shard_by_rule(in, matches, match, module, graph.params[id], sharding) &&
                      check_param(in, matches, match, id, sharding);
        if (!result.fits) sharding = {.spec = replicated_spec(graph.params[id].ndim), .segments = {}};
      }
      result.sharding = intern(table, sharding);
    }
  }
  check_idle_specs(in, matches);
  if (plan.dialect->check_modules != nullptr) plan.dialect->check_modules(in, matches, table);
  return table;
}

}  // namespace tpplan
