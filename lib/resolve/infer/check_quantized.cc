#include "resolve/infer/check_quantized.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string>

#include "model/name_subject.h"
#include "model/quantized.h"
#include "resolve/infer/describe_error.h"
#include "sharding/check_sharding.h"
#include "sharding/tensor_size.h"

namespace tpplan {
namespace {

struct QuantizedCheck {
  const TpPlan& plan;
  const ModelGraph& graph;
  const MatchTable& matches;
  const ShardingTable& table;
  Diagnostics& diagnostics;
};

// Returns the sharding of the companion that gives each rank the elements of its part of the weight.
Sharding expected_sharding(const QuantizedCheck& in, const Companion& companion) {
  const Sharding& weight = sharding_of(in.table, companion.weight);
  Sharding expected{.spec = replicated_spec(companion.dims.size()), .segments = {}};
  for (size_t dim = 0; dim < companion.dims.size(); ++dim) {
    if (companion.dims[dim].weight_dim < 0) continue;
    const auto of = static_cast<size_t>(companion.dims[dim].weight_dim);
    expected.spec[dim] = weight.spec[of];
    std::vector<int64_t> sizes = companion_segments(companion.dims[dim], segments_of(weight, of));
    if (!sizes.empty()) expected.segments.push_back({dim, std::move(sizes)});
  }
  return expected;
}

std::string sharded_text(const QuantizedCheck& in, const Sharding& sharding) {
  return is_replicated(sharding.spec) ? "replicated"
                                      : fmt::format("sharded as {}", to_text(sharding.spec, in.plan.mesh));
}

// Returns an edit of the plan that shards the companion as expected.
std::string matching_help(const QuantizedCheck& in, ParamId id, const Companion& companion, const Sharding& expected) {
  const std::string path = path_of(in.graph, in.graph.params[id]);
  if (is_replicated(expected.spec)) {
    const bool replicates = is_replicated(sharding_of(in.table, companion.weight).spec);
    return replicates ? fmt::format("shard `{}` too, or leave both without a rule",
                                    path_of(in.graph, in.graph.params[companion.weight]))
                      : fmt::format("write `\"{}\": replicate`", path);
  }
  if (!in.plan.dialect->follows_framework)
    return fmt::format("write `\"{}\": {{spec: {}}}`", path, to_text(expected.spec, in.plan.mesh));
  const RuleId rule = in.table.params[companion.weight].rule;
  return rule == kNoRule ? std::string()
                         : fmt::format("write `\"{}\": {}`", path, rule_value_text(in.plan.rules[rule], in.plan.mesh));
}

// Reports shard boundaries of the weight that are inside a block of the companion.
void check_blocks(const QuantizedCheck& in, ParamId id, const Companion& companion, std::vector<bool>& reported) {
  const Sharding& sharding = sharding_of(in.table, companion.weight);
  if (is_replicated(sharding.spec) || reported[companion.weight]) return;
  std::vector<DimGranularity> blocks;
  for (const CompanionDim& dim : companion.dims) {
    if (dim.weight_dim >= 0 && dim.block > 1) blocks.push_back({static_cast<size_t>(dim.weight_dim), dim.block});
  }
  const Param& weight = in.graph.params[companion.weight];
  for (const ShardingError& fault :
       check_sharding(shape_of(in.graph, weight), sharding, in.plan.mesh, UnevenPolicy::Torch, blocks)) {
    if (fault.kind != ShardingErrorKind::SplitsGranule) continue;
    reported[companion.weight] = true;
    const ParamMatch& match = in.matches.params[companion.weight];
    Diagnostic* d =
        report_sharding_error(fault, in.plan, in.graph, companion.weight, rule_of_dim(in.matches, match, fault.dim),
                              sharding, match.by_module, true, in.diagnostics);
    if (d == nullptr) continue;
    const Param& param = in.graph.params[id];
    d->notes.push_back({fmt::format("one element of `{}` {} applies to {} elements of this dim", param.name,
                                    shape_text(shape_of(in.graph, param)), fault.granule),
                        span_of(in.graph, param)});
  }
}

void check_scales(const QuantizedCheck& in, ParamId id, const Companion& companion) {
  const Sharding expected = expected_sharding(in, companion), &actual = sharding_of(in.table, id);
  if (actual == expected) return;
  const RuleId rule = in.table.params[id].rule, of = in.table.params[companion.weight].rule;
  if (rule == kNoRule && of == kNoRule) return;  // tied weights have shardings without a rule
  Diagnostic* d = report(in.diagnostics, Code::ScalesMismatch, in.plan.rules[rule == kNoRule ? of : rule].value_span,
                         fmt::format("{}/{}/{}", rule, of, in.graph.params[id].name));
  if (d == nullptr) return;
  const Param &param = in.graph.params[id], &weight = in.graph.params[companion.weight];
  name_subject(*d, in.graph, param);
  d->counted = "parameter";
  d->message = fmt::format(
      "`{}` is {} and its quantized weight `{}` is {}: a rank would dequantize with the scales of "
      "another part",
      path_of(in.graph, param), sharded_text(in, actual), weight.name,
      sharded_text(in, sharding_of(in.table, companion.weight)));
  d->help = matching_help(in, id, companion, expected);
  for (const Param* p : {&weight, &param})
    d->notes.push_back({fmt::format("`{}` {}", p->name, shape_text(shape_of(in.graph, *p))), span_of(in.graph, *p)});
}

// True for weights of linear layers and experts. Other integers may have empty shards, as any tensor.
bool is_matrix_of_layer(const ModelGraph& graph, const Param& param) {
  const ModuleKind kind = graph.modules[param.module].kind;
  return param.ndim >= 2 && (kind == ModuleKind::Linear || kind == ModuleKind::Experts);
}

// Returns the first dim of which some rank holds no element, or -1.
int empty_dim(const QuantizedCheck& in, ParamId id) {
  const Sharding& sharding = sharding_of(in.table, id);
  const std::span<const int64_t> shape = shape_of(in.graph, in.graph.params[id]);
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    const int64_t count = shard_count(sharding.spec[dim], in.plan.mesh);
    if (shape[dim] > 0 && count > shape[dim]) return static_cast<int>(dim);
  }
  return -1;
}

void check_empty(const QuantizedCheck& in, ParamId id) {
  const int dim = empty_dim(in, id);
  const RuleId rule = in.table.params[id].rule;
  if (dim < 0 || rule == kNoRule) return;
  Diagnostic* d = report(in.diagnostics, Code::EmptyQuantizedShard, in.plan.rules[rule].value_span,
                         fmt::format("{}/{}", rule, in.graph.params[id].name));
  if (d == nullptr) return;
  const Param& param = in.graph.params[id];
  const auto at = static_cast<size_t>(dim);
  const int64_t size = shape_of(in.graph, param)[at];
  name_subject(*d, in.graph, param);
  d->counted = "parameter";
  d->message =
      fmt::format("some ranks hold nothing of `{}`: its dim {} has size {}, and {} shards", path_of(in.graph, param),
                  dim, size, shard_count(sharding_of(in.table, id).spec[at], in.plan.mesh));
  d->help = fmt::format("write `\"{}\": replicate`, or shard another dim", path_of(in.graph, param));
  d->notes.push_back({fmt::format("`{}` {} is stored as {}", param.name, shape_text(shape_of(in.graph, param)),
                                  dtypes()[param.dtype].name),
                      span_of(in.graph, param)});
}

}  // namespace

void check_quantized(const TpPlan& plan, const ModelGraph& graph, const MatchTable& matches, const ShardingTable& table,
                     Diagnostics& diagnostics) {
  if (!has_quantized(graph)) return;
  const QuantizedCheck in{plan, graph, matches, table, diagnostics};
  std::vector<bool> reported(graph.params.size());
  for (ParamId id = 0; id < graph.params.size(); ++id) {
    const std::optional<Companion> companion = find_companion(graph, id);
    if (companion) {
      if (!table.params[id].fits || !table.params[companion->weight].fits) continue;
      check_blocks(in, id, *companion, reported);
      if (!reported[companion->weight]) check_scales(in, id, *companion);
    } else if (is_matrix_of_layer(graph, graph.params[id]) && is_quantized(graph.params[id].dtype)) {
      check_empty(in, id);
    }
  }
}

}  // namespace tpplan
