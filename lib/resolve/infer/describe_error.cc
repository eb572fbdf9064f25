#include "resolve/infer/describe_error.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/text.h"
#include "model/module_kinds.h"
#include "model/name_subject.h"
#include "resolve/infer/check_heads.h"
#include "sharding/partition_spec.h"
#include "sharding/tensor_size.h"

namespace tpplan {
namespace {

struct ErrorPlace {
  const ShardingError& fault;
  const TpPlan& plan;
  const ModelGraph& graph;
  const Param& param;
  const Module& module;
  const PlanRule& rule;
  const Sharding& sharding;
  bool by_module;
};

std::string axes_text(const ErrorPlace& at) {
  std::vector<std::string> parts;
  for (const AxisId axis : at.sharding.spec[at.fault.dim]) {
    parts.push_back(fmt::format("`{}` ({})", axis_name(at.plan.mesh, axis), at.plan.mesh.axes[axis].size));
  }
  return join(parts, " x ");
}

std::string subject(const ErrorPlace& at) {
  return fmt::format("dim {} of `{}`", at.fault.dim, path_of(at.graph, at.param));
}

// Returns help text that names another unsharded dim divisible by the same shard count; empty if there is none.
std::string other_dim_help(const ErrorPlace& at) {
  const std::span<const int64_t> shape = shape_of(at.graph, at.param);
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    const bool free = dim != at.fault.dim && at.sharding.spec[dim].empty();
    if (free && shape[dim] >= at.fault.shards && divides(at.fault.shards, shape[dim])) {
      return fmt::format("shard dim {} instead ({} = {} x {})", dim, shape[dim], at.fault.shards,
                         shape[dim] / at.fault.shards);
    }
  }
  return "";
}

std::string division_help(const ErrorPlace& at) {
  std::vector<std::string> possible_fixes;
  const int64_t size = at.fault.size, shards = at.fault.shards;
  const uint64_t padded =
      (static_cast<uint64_t>(size / shards) + 1) * static_cast<uint64_t>(shards);  // sizes are below 2^63
  if (at.module.kind == ModuleKind::Embedding)
    possible_fixes.push_back(fmt::format("pad the vocabulary to {}", padded));
  const std::string other = other_dim_help(at);
  if (!other.empty()) possible_fixes.push_back(other);
  std::vector<std::string> sizes;
  for (const int64_t divisor : common_divisors(std::span(&size, 1), std::min<int64_t>(2 * shards, 4096)))
    sizes.push_back(std::to_string(divisor));
  if (sizes.size() > 1)
    possible_fixes.push_back(fmt::format(
        "{} ({})",
        at.sharding.spec[at.fault.dim].size() > 1 ? "use sizes whose product divides it" : "use a size that divides it",
        join(sizes, ", ")));
  const bool has_complete_experts =
      at.rule.style != nullptr && at.rule.style->shard_dim == kDimExpert && has_num_experts(at.graph, at.module);
  const bool has_complete_heads_of_rank = splits_heads(at.plan.mesh, at.graph, at.param, at.sharding);
  if (at.plan.uneven == UnevenPolicy::Error && at.graph.framework == Framework::Torch && !has_complete_experts &&
      !has_complete_heads_of_rank)
    possible_fixes.push_back("write `uneven: torch` for shards as in torch.chunk");
  return possible_fixes.empty() ? "replicate the dim" : fmt::format("{}", fmt::join(possible_fixes, ", or "));
}

void describe_division(const ErrorPlace& at, Diagnostic& d) {
  const bool is_product = at.fault.kind == ShardingErrorKind::AxesNotDivisible;
  d.message = fmt::format("{} has size {}, which {} does not divide", subject(at), at.fault.size, axes_text(at));
  if (is_product) d.message += fmt::format(": each axis does, their product {} does not", at.fault.shards);
  d.label = at.fault.size < at.fault.shards ? fmt::format("{} elements for {} shards", at.fault.size, at.fault.shards)
                                            : fmt::format("{} / {} has remainder {}", at.fault.size, at.fault.shards,
                                                          at.fault.size % at.fault.shards);
  d.help = division_help(at);
}

void describe_segment(const ErrorPlace& at, Diagnostic& d) {
  d.message =
      fmt::format("{} has a segment of size {}, which {} does not divide", subject(at), at.fault.size, axes_text(at));
  d.label = fmt::format("{} / {} has remainder {}", at.fault.size, at.fault.shards, at.fault.size % at.fault.shards);
  d.notes.push_back({fmt::format("its segments are {}, and each is sharded separately",
                                 shape_text(segments_of(at.sharding, at.fault.dim))),
                     {}});
  d.help = at.graph.framework == Framework::Torch ? "use a size that divides every segment, or write `uneven: torch`"
                                                  : "use a size that divides every segment";
}

void describe_granule(const ErrorPlace& at, Diagnostic& d) {
  d.message = fmt::format("shards of {} over {} end inside blocks of {}", subject(at), axes_text(at), at.fault.granule);
  if (!divides(at.fault.granule, at.fault.size)) {
    d.label = fmt::format("{} elements are {} of {} with remainder {}", at.fault.size,
                          counted(static_cast<uint64_t>(at.fault.size / at.fault.granule), "block"), at.fault.granule,
                          at.fault.size % at.fault.granule);
    d.help = "replicate the dim, or correct its `granularity` in the model: no equal shards consist of full blocks";
    return;
  }
  d.label = fmt::format("{} elements are {} blocks for {} shards", at.fault.size, at.fault.size / at.fault.granule,
                        at.fault.shards);
  const int64_t blocks = at.fault.size / at.fault.granule;
  std::vector<std::string> sizes;
  for (const int64_t shards : common_divisors(std::span(&blocks, 1), std::min<int64_t>(blocks, 4096)))
    sizes.push_back(std::to_string(shards));
  d.help = fmt::format("use an axis size that does not split blocks: {}", join(sizes, ", "));
}

void describe_entry_count(const ErrorPlace& at, Diagnostic& d) {
  d.message = fmt::format("`{}` has {}, but the spec has {}", path_of(at.graph, at.param),
                          counted(static_cast<uint64_t>(at.fault.size), "dim"),
                          at.fault.found == 1 ? "1 entry" : fmt::format("{} entries", at.fault.found));
  d.label =
      fmt::format("{} for shape {}", rule_value_text(at.rule, at.plan.mesh), shape_text(shape_of(at.graph, at.param)));
  const std::span<const Param> params = params_of(at.graph, at.module);
  const auto meant =
      std::find_if(params.begin(), params.end(), [&](const Param& p) { return p.ndim == at.fault.found; });
  d.help = at.by_module && meant != params.end()
               ? fmt::format("the key names a module and so applies to all its parameters: write `{}{}{}`", at.rule.key,
                             separator(at.graph.framework), meant->name)
               : "write one entry for each dim: `null` for a replicated dim, or `...` for the rest";
}

// Returns the diagnostic code of a sharding error.
Code code_of(const ShardingError& fault, bool expert_dim, bool granularity_is_fatal) {
  switch (fault.kind) {
    case ShardingErrorKind::EntryCount:
      return Code::SpecDimsMismatch;
    case ShardingErrorKind::UnknownAxis:
      return Code::UnknownAxis;
    case ShardingErrorKind::AxisTwice:
      return Code::AxisUsedTwice;
    case ShardingErrorKind::NotDivisible:
      return expert_dim ? Code::IndivisibleExperts : Code::IndivisibleDim;
    case ShardingErrorKind::AxesNotDivisible:
      return expert_dim ? Code::IndivisibleExperts : Code::IndivisibleByAxes;
    case ShardingErrorKind::SegmentNotDivisible:
    case ShardingErrorKind::SegmentsDoNotFit:
      return Code::IndivisibleSegment;
    case ShardingErrorKind::SplitsGranule:
      return granularity_is_fatal ? Code::BlockSplit : Code::FrameworkSplitsHeads;
  }
  return Code::IndivisibleDim;
}

}  // namespace

std::vector<DimGranularity> granularity_of(const ModelGraph& graph, const Param& param) {
  std::vector<DimGranularity> granularity;
  if (param.extras == kNone) return granularity;
  for (const auto& [dim, granule] : graph.extras[param.extras].granularity) granularity.push_back({dim, granule});
  return granularity;
}

Diagnostic* report_sharding_error(const ShardingError& fault, const TpPlan& plan, const ModelGraph& graph,
                                  ParamId param_id, RuleId rule_id, const Sharding& sharding, bool by_module,
                                  bool granularity_is_fatal, Diagnostics& diagnostics) {
  const Param& param = graph.params[param_id];
  const Module& module = graph.modules[param.module];
  const PlanRule& rule = plan.rules[rule_id];
  const std::span<const std::string_view> dims = dims_of(graph, module, param);
  const bool expert_dim = fault.dim < dims.size() && dims[fault.dim] == kDimExpert;
  const std::string group =
      fmt::format("{}/{}/{}/{}/{}", rule_id, static_cast<int>(fault.kind), fault.dim, fault.size, fault.shards);
  Diagnostic* d = report(diagnostics, code_of(fault, expert_dim, granularity_is_fatal), rule.value_span, group);
  if (d == nullptr) return nullptr;
  d->counted = "parameter";
  name_subject(*d, graph, param);
  const ErrorPlace at{fault, plan, graph, param, module, rule, sharding, by_module};
  switch (fault.kind) {
    case ShardingErrorKind::EntryCount:
      describe_entry_count(at, *d);
      break;
    case ShardingErrorKind::AxisTwice:
      d->message = fmt::format("axis `{}` shards both dim {} and dim {} of `{}`", axis_name(plan.mesh, fault.axis),
                               fault.other_dim, fault.dim, path_of(graph, param));
      if (fault.dim == fault.other_dim)
        d->message = fmt::format("axis `{}` occurs twice in dim {} of `{}`", axis_name(plan.mesh, fault.axis),
                                 fault.dim, path_of(graph, param));
      d->help = "remove one of the two: an axis can shard only one dim of a tensor, once";
      break;
    case ShardingErrorKind::NotDivisible:
    case ShardingErrorKind::AxesNotDivisible:
      describe_division(at, *d);
      break;
    case ShardingErrorKind::SegmentNotDivisible:
      describe_segment(at, *d);
      break;
    case ShardingErrorKind::SplitsGranule:
      describe_granule(at, *d);
      break;
    case ShardingErrorKind::UnknownAxis:
    case ShardingErrorKind::SegmentsDoNotFit:
      d->message = fmt::format("the sharding of `{}` does not fit the mesh", path_of(graph, param));
      break;
  }
  d->notes.push_back({fmt::format("`{}` {} {}", param.name, shape_text(shape_of(graph, param)), type_of(graph, module)),
                      span_of(graph, param)});
  return d;
}

}  // namespace tpplan
