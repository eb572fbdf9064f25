#include "infer/check_limits.h"

#include <spdlog/fmt/fmt.h>

#include "manifest/manifest.h"
#include "sharding/shard_slice.h"
#include "sharding/tensor_size.h"

namespace tpplan {
namespace {

// Where pieces are not equal, each is listed.
bool has_many_shapes(const TpPlan& plan, const ModelGraph& graph, ParamId id, const Sharding& sharding) {
  return shard_count(sharding.spec, plan.mesh) > kMaxLocalShapes &&
         !is_even(shape_of(graph, graph.params[id]), sharding, plan.mesh);
}

// Names of one tensor count once, as in sum_totals.
bool sum_fits(const ModelGraph& graph, const ShardingTable& table) {
  std::vector<bool> is_counted(graph.params.size(), true);
  for (const auto& [follower, leader] : table.followers) is_counted[follower] = false;
  uint64_t elements = 0, bytes = 0;
  for (ParamId id = 0; id < graph.params.size(); ++id) {
    if (!is_counted[id]) continue;
    const std::span<const int64_t> shape = shape_of(graph, graph.params[id]);
    const uint64_t size = bytes_of(graph.params[id].dtype, shape);
    if (size > kMostInTotal - bytes || elements_of(shape) > kMostInTotal - elements) return false;
    bytes += size;
    elements += elements_of(shape);
  }
  return true;
}

}  // namespace

void check_limits(const TpPlan& plan, const ModelGraph& graph, const ShardingTable& table, Diagnostics& diagnostics) {
  for (ParamId id = 0; id < graph.params.size(); ++id) {
    if (!has_many_shapes(plan, graph, id, sharding_of(table, id))) continue;
    const RuleId rule = table.params[id].rule;
    const Span place = rule == kNoRule ? plan.rules_span : plan.rules[rule].key_span;
    Diagnostic* d = report(diagnostics, Code::TP9001, place, fmt::format("shapes/{}", rule));
    if (d == nullptr) continue;
    d->message =
        fmt::format("`{}` has more than {} different local shapes", path_of(graph, graph.params[id]), kMaxLocalShapes);
    d->counted = "parameter";
    d->help = "use smaller axes, or `uneven: error`";
  }
  if (!sum_fits(graph, table))
    report_message(diagnostics, Code::TP9001, {}, "the model's bytes do not fit into 64 bits");
}

}  // namespace tpplan
