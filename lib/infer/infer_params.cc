#include "infer/infer_params.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "infer/describe_fault.h"
#include "match/select_modules.h"
#include "model/module_kinds.h"
#include "sharding/shard_slice.h"

namespace tpplan {
namespace {

struct Inference {
  const TpPlan& plan;
  const ModelGraph& graph;
  Diagnostics& diagnostics;
};

// True in the dialects whose result is the framework's own, right or wrong.
bool follows_framework(const TpPlan& plan) {
  return plan.dialect == Dialect::Torch || plan.dialect == Dialect::Transformers;
}

// ---- which dim a style cuts ----

enum class CutKind : uint8_t { Whole, Dim, Fault };

struct Cut {
  CutKind kind = CutKind::Whole;
  size_t dim = 0;
};

void report_unsupported(const Inference& in, const ParamMatch& match, const Module& module, std::string message,
                        std::string help) {
  const PlanRule& rule = in.plan.rules[match.rule];
  Diagnostic* d = report(in.diagnostics, Code::TP5009, rule.value_span, fmt::format("{}/{}", match.rule, module.type));
  if (d == nullptr) return;
  d->message = std::move(message);
  d->counted = "parameter";
  d->help = std::move(help);
  d->notes.push_back(
      {fmt::format("`{}` is {} ({})", module.path, type_of(in.graph, module), to_text(module.kind)), span_of(module)});
}

// True when the module is one that the style shards; otherwise says why not. Only a key that names the module asks.
bool supports_module(const Inference& in, const ParamMatch& match, const Module& module) {
  const StyleRow& style = *in.plan.rules[match.rule].style;
  const bool linear = module.kind == ModuleKind::Linear, embedding = module.kind == ModuleKind::Embedding;
  const std::string_view type = type_of(in.graph, module);
  if (in.plan.dialect == Dialect::Torch) {
    if (style.modules != StyleModules::LinearOrEmbedding || is_torch_linear_or_embedding(in.graph, module)) return true;
    report_unsupported(
        in, match, module,
        fmt::format("{} supports Linear and Embedding, and `{}` is {}", style.name, module.path, type),
        module.kind == ModuleKind::Norm
            ? "give it sequence_parallel, or no rule"
            : "name the Linear modules below it, or make it `\"kind\": \"linear\"` in the model if it is a subclass");
    return false;
  }
  if (in.plan.dialect == Dialect::Transformers) {
    const Features asked = style.cut_dim == kDimOut ? kOutFeatures : kInFeatures;
    if (style.modules != StyleModules::LinearOrEmbedding || (features_of(in.graph, module) & asked) != 0) return true;
    report_unsupported(
        in, match, module,
        fmt::format("{} shards linear layers, and `{}` is {}, which has no `{}_features`", style.name, module.path,
                    type, style.cut_dim),
        embedding ? "use embedding_rowwise or embedding_colwise" : "name the parameter itself, or a linear layer");
    return false;
  }
  const bool fits = style.modules == StyleModules::Any || style.modules == StyleModules::WithDims ||
                    (linear && style.modules == StyleModules::LinearOrEmbedding) || embedding;
  if (fits || module.kind == ModuleKind::Other) return true;  // of other modules the dims decide
  report_unsupported(in, match, module, fmt::format("{} does not fit `{}`, which is {}", style.name, module.path, type),
                     style.modules == StyleModules::EmbeddingOnly
                         ? "use colwise or rowwise for linear layers"
                         : "leave it without a rule, write `replicate`, or shard it by a spec: [tp]");
  return false;
}

Cut cut_by_position(const Inference& in, const ParamMatch& match, const Module& module, const Param& param) {
  const StyleRow& style = *in.plan.rules[match.rule].style;
  if (style.bias_stays_whole && param.name == "bias") return {};
  const DimPosition position = param.ndim == 0 ? kRefuses : param.ndim == 1 ? style.at_one_dim : style.at_more_dims;
  if (position == kCutsNothing) return {};
  const int dim = position < 0 ? position + param.ndim : position;
  if (position != kRefuses && dim >= 0 && dim < param.ndim) return {CutKind::Dim, static_cast<size_t>(dim)};
  report_unsupported(in, match, module,
                     fmt::format("{} cannot cut `{}` of shape {}", style.name, path_of(in.graph, param),
                                 shape_text(shape_of(in.graph, param))),
                     "");
  return {CutKind::Fault};
}

// torch 2.13, style.py: colwise cuts every parameter of a Linear along dim 0 and of an Embedding along dim 1, rowwise
// the `weight` of a Linear along dim 1 and every parameter of an Embedding along dim 0, whatever they are called.
Cut cut_as_torch(const Inference& in, const ParamMatch& match, const Module& module, const Param& param) {
  const StyleRow& style = *in.plan.rules[match.rule].style;
  const bool colwise = style.cut_dim == kDimOut, linear = module.kind == ModuleKind::Linear;
  if (linear && !colwise && param.name != "weight") return {};
  const size_t dim = linear == colwise ? 0 : 1;
  if (dim < param.ndim) return {CutKind::Dim, dim};
  report_unsupported(in, match, module,
                     fmt::format("{} cuts dim {} of `{}`, whose shape is {}", style.name, dim, path_of(in.graph, param),
                                 shape_text(shape_of(in.graph, param))),
                     "torch raises an error here");
  return {CutKind::Fault};
}

// True where torch's own styles decide, which go by the module's class alone.
bool cuts_as_torch(const Inference& in, const Module& module) {
  return in.plan.dialect == Dialect::Torch && in.graph.framework == Framework::Torch &&
         is_torch_linear_or_embedding(in.graph, module);
}

Cut cut_by_name(const Inference& in, const ParamMatch& match, const Module& module, const Param& param) {
  const PlanRule& rule = in.plan.rules[match.rule];
  const std::span<const std::string_view> dims = dims_of(in.graph, module, param);
  const bool given = param.extras != kNone && !in.graph.extras[param.extras].dims.empty();
  if (dims.empty() || (module.kind == ModuleKind::Norm && !given)) {
    if (!dims.empty()) {
      report_unsupported(in, match, module,
                         fmt::format("{} does not fit `{}`, a parameter of {}", rule.style->name,
                                     path_of(in.graph, param), type_of(in.graph, module)),
                         "leave it without a rule, write `replicate`, or shard it by a spec: [tp]");
      return {CutKind::Fault};
    }
    Diagnostic* d = report(in.diagnostics, Code::TP5010, rule.value_span,
                           fmt::format("{}/{}/{}", match.rule, module.type, param.name));
    if (d == nullptr) return {CutKind::Fault};
    d->message = fmt::format("{} cuts dim `{}`, and the dims of `{}` {} have no names", rule.style->name,
                             rule.style->cut_dim, path_of(in.graph, param), shape_text(shape_of(in.graph, param)));
    d->counted = "parameter";
    d->notes.push_back({fmt::format("{} is not a type that the table knows",
                                    type_of(in.graph, module).empty() ? "its module" : type_of(in.graph, module)),
                        span_of(param)});
    d->help = "name them in the model (\"dims\": [\"out\", \"in\"]), give the module a \"kind\", or write a spec";
    return {CutKind::Fault};
  }
  const int dim = find_dim(dims, rule.style->cut_dim);
  return dim < 0 ? Cut{} : Cut{CutKind::Dim, static_cast<size_t>(dim)};
}

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
  d->message =
      fmt::format("{} cuts dim {} of `{}` as one piece: {}",
                  rule.contiguous ? std::string_view("`contiguous: true`") : std::string_view(to_text(in.plan.dialect)),
                  dim, path_of(in.graph, param), why);
  d->counted = "parameter";
  d->notes.push_back(
      {"ranks get rows of one segment where they expect a part of each: wrong values, no error", span_of(param)});
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
  if (!follows_framework(in.plan)) {
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

// False when the rule does not fit the parameter at all; the reason has been reported.
bool shard_by_rule(const Inference& in, const ParamMatch& match, const Module& module, const Param& param,
                   Sharding& sharding) {
  const PlanRule& rule = in.plan.rules[match.rule];
  sharding.segments.clear();
  if (rule.style == nullptr) {
    sharding.spec = expand(*rule.spec, param.ndim);
    for (size_t dim = 0; dim < sharding.spec.size() && sharding.spec.size() == param.ndim; ++dim) {
      if (!sharding.spec[dim].empty()) add_segments(in, match, module, param, dim, sharding);
    }
    return true;
  }
  sharding.spec = replicated_spec(param.ndim);
  if (match.by_module && !supports_module(in, match, module)) return false;
  if (rule.style->cut_dim.empty()) return true;
  const Cut cut = in.plan.dialect == Dialect::Transformers ? cut_by_position(in, match, module, param)
                  : cuts_as_torch(in, module)              ? cut_as_torch(in, match, module, param)
                                                           : cut_by_name(in, match, module, param);
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
bool check_param(const Inference& in, const ParamMatch& match, ParamId id, const Sharding& sharding) {
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
    report_sharding_fault(fault, in.plan, in.graph, id, match.rule, sharding, match.by_module,
                          !follows_framework(in.plan), in.diagnostics);
  }
  return std::all_of(faults.begin(), faults.end(),
                     [](const ShardingFault& f) { return f.kind == ShardingFaultKind::CutsGranule; });
}

// transformers' sequence_parallel wraps the module's own parameters, and fails on one that another rule has made a
// DTensor.
void check_replicated_params(const Inference& in, const BoundaryMatch& match, const Module& module,
                             const MatchTable& matches, const ShardingTable& table) {
  const StyleRow& style = *in.plan.rules[match.rule].style;
  if (!style.wraps_parameters) return;
  for (ParamId id = module.first_param; id < module.first_param + module.param_count; ++id) {
    if (matches.params[id].rule == match.rule || is_replicated(sharding_of(table, id).spec)) continue;
    report_unsupported(in, {.rule = match.rule, .by_module = true}, module,
                       fmt::format("{} replicates the parameters of `{}`, and `{}` cuts its `{}`", style.name,
                                   module.path, in.plan.rules[matches.params[id].rule].key, in.graph.params[id].name),
                       "give the module one of both rules; transformers raises an error here");
    return;
  }
}

// The first module below another, in the model's order, and the first that owns parameters; kNone where there is none.
struct FirstBelow {
  ModuleId any = kNone, owner = kNone;
};

std::vector<FirstBelow> first_below(const ModelGraph& graph) {
  std::vector<FirstBelow> firsts(graph.modules.size());
  const std::vector<ModuleId> parents = parents_of(graph);
  for (ModuleId id = 0; id < graph.modules.size(); ++id) {
    const bool owns = graph.modules[id].param_count != 0;
    for (ModuleId at = parents[id]; at != kNone; at = parents[at]) {
      if (firsts[at].any != kNone && (!owns || firsts[at].owner != kNone)) break;  // so have all above it
      if (firsts[at].any == kNone) firsts[at].any = id;
      if (owns && firsts[at].owner == kNone) firsts[at].owner = id;
    }
  }
  return firsts;
}

// Modules that a framework refuses whatever they own: containers under a style for linear layers, and in torch modules
// with others below them, whose styles register all parameters below by names with dots.
void check_modules(const Inference& in, const MatchTable& matches, const ShardingTable& table) {
  if (!follows_framework(in.plan)) return;
  const std::vector<FirstBelow> firsts =
      in.plan.dialect == Dialect::Torch ? first_below(in.graph) : std::vector<FirstBelow>();
  for (const BoundaryMatch& match : matches.boundaries) {
    const StyleRow* style = in.plan.rules[match.rule].style;
    const Module& module = in.graph.modules[match.module];
    if (style == nullptr) continue;
    const bool linear = style->modules == StyleModules::LinearOrEmbedding;
    // Where the rule decides over a parameter of the module, it has been asked already.
    const auto params = std::span(matches.params).subspan(module.first_param, module.param_count);
    const bool asked = std::any_of(params.begin(), params.end(),
                                   [&](const ParamMatch& p) { return p.rule == match.rule && p.by_module; });
    if (in.plan.dialect == Dialect::Transformers) check_replicated_params(in, match, module, matches, table);
    if (linear && !asked && !supports_module(in, {.rule = match.rule, .by_module = true}, module)) continue;
    if (!style->once_per_module || in.plan.dialect != Dialect::Torch) continue;
    // rowwise asks every module below a Linear for its `weight`, and cuts it; all other styles register parameters by
    // name.
    const bool asks_all = linear && style->cut_dim == kDimIn && module.kind == ModuleKind::Linear;
    if (linear && !is_torch_linear_or_embedding(in.graph, module)) continue;
    const ModuleId below = asks_all ? firsts[match.module].any : firsts[match.module].owner;
    if (below == kNone) continue;
    const std::string_view path = in.graph.modules[below].path;
    if (linear) {
      report_unsupported(
          in, {.rule = match.rule, .by_module = true}, module,
          fmt::format("{} takes a Linear or Embedding with nothing below it, and `{}` has `{}`", style->name,
                      module.path, path),
          asks_all ? "torch cuts the weight of what is below, or raises an error" : "torch raises an error here");
    } else {
      report_unsupported(in, {.rule = match.rule, .by_module = true}, module,
                         fmt::format("{} takes modules that own their parameters, and `{}` has them in `{}`",
                                     style->name, module.path, path),
                         "name the norms themselves; torch raises KeyError here");
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
        const bool fits =
            shard_by_rule(in, match, module, graph.params[id], sharding) && check_param(in, match, id, sharding);
        if (!fits) sharding = {.spec = replicated_spec(graph.params[id].ndim), .segments = {}};
      }
      result.sharding = intern(table, sharding);
    }
  }
  check_modules(in, matches, table);
  return table;
}

}  // namespace tpplan
