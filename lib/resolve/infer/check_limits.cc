#include "resolve/infer/check_limits.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/text.h"
#include "manifest/manifest.h"
#include "model/name_subject.h"
#include "sharding/shard_slice.h"
#include "sharding/tensor_size.h"

namespace tpplan {
namespace {

// True if a manifest would list too many shapes of the parameter, because uneven shards are listed one by one.
bool has_many_shapes(const TpPlan& plan, const ModelGraph& graph, ParamId id, const Sharding& sharding) {
  return shard_count(sharding.spec, plan.mesh) > kMaxLocalShapes &&
         !is_even(shape_of(graph, graph.params[id]), sharding, plan.mesh);
}

// Reports TP9001 if uneven shards of all parameters are too many: a manifest lists the shape of each, so a small plan
// could produce a huge file.
void check_sum_of_shapes(const TpPlan& plan, const ModelGraph& graph, const ShardingTable& table,
                         Diagnostics& diagnostics) {
  int64_t listed = 0;
  for (ParamId id = 0; id < graph.params.size(); ++id) {
    const Sharding& sharding = sharding_of(table, id);
    if (is_even(shape_of(graph, graph.params[id]), sharding, plan.mesh)) continue;
    listed += shard_count(sharding.spec, plan.mesh);
    if (listed <= kMaxListedShapes) continue;
    report_message(diagnostics, Code::ResourceLimit, plan.rules_span,
                   fmt::format("the parameters have more than {} uneven shards, and a manifest lists the shape of each",
                               kMaxListedShapes),
                   "use smaller axes, or `uneven: error`");
    return;
  }
}

// True if a shard ends inside a byte. Elements smaller than a byte are stored in rows of whole bytes, and so must be
// the shards of a row.
bool ends_inside_byte(const TpPlan& plan, const ModelGraph& graph, ParamId id, const Sharding& sharding) {
  const unsigned bits = dtypes()[graph.params[id].dtype].bits;
  const std::span<const int64_t> shape = shape_of(graph, graph.params[id]);
  if (bits >= 8 || shape.empty() || is_replicated(sharding.spec)) return false;
  const int64_t in_a_byte = 8 / bits;
  if (!divides(in_a_byte, shape.back())) return true;
  const DimGranularity bytes[] = {{shape.size() - 1, in_a_byte}};
  return !sharding.spec.back().empty() &&
         std::ranges::any_of(check_sharding(shape, sharding, plan.mesh, plan.uneven, bytes),
                             [](const ShardingError& f) { return f.kind == ShardingErrorKind::SplitsGranule; });
}

// Returns the parameter with which the sum exceeds 64 bits, kNone if there is none. Names of one tensor count once, as
// in sum_totals.
ParamId first_beyond_64_bits(const ModelGraph& graph, const ShardingTable& table) {
  std::vector<bool> is_counted(graph.params.size(), true);
  for (const auto& [follower, leader] : table.followers) is_counted[follower] = false;
  uint64_t elements = 0, bytes = 0;
  for (ParamId id = 0; id < graph.params.size(); ++id) {
    if (!is_counted[id]) continue;
    const std::span<const int64_t> shape = shape_of(graph, graph.params[id]);
    const uint64_t size = bytes_of(graph.params[id].dtype, shape);
    if (size > kMostInTotal - bytes || elements_of(shape) > kMostInTotal - elements) return id;
    bytes += size;
    elements += elements_of(shape);
  }
  return kNone;
}

}  // namespace

void check_limits(const TpPlan& plan, const ModelGraph& graph, const ShardingTable& table, Diagnostics& diagnostics) {
  for (ParamId id = 0; id < graph.params.size(); ++id) {
    if (!ends_inside_byte(plan, graph, id, sharding_of(table, id))) continue;
    const RuleId rule = table.params[id].rule;
    const Span place = rule == kNoRule ? plan.rules_span : plan.rules[rule].key_span;
    Diagnostic* d = report(diagnostics, Code::BlockSplit, place, fmt::format("bytes/{}", rule));
    if (d == nullptr) continue;
    const Param& param = graph.params[id];
    name_subject(*d, graph, param);
    d->message = fmt::format("the shards of `{}` {} end inside a byte: its elements have {} bits",
                             path_of(graph, param), shape_text(shape_of(graph, param)), dtypes()[param.dtype].bits);
    d->counted = "parameter";
    d->help = "shard another dim, or use an axis size whose shards end at full bytes";
  }
  for (ParamId id = 0; id < graph.params.size(); ++id) {
    if (!has_many_shapes(plan, graph, id, sharding_of(table, id))) continue;
    const RuleId rule = table.params[id].rule;
    const Span place = rule == kNoRule ? plan.rules_span : plan.rules[rule].key_span;
    Diagnostic* d = report(diagnostics, Code::ResourceLimit, place, fmt::format("shapes/{}", rule));
    if (d == nullptr) continue;
    name_subject(*d, graph, graph.params[id]);
    d->message = fmt::format("`{}` has {} uneven shards, but a manifest lists at most {} local shapes",
                             path_of(graph, graph.params[id]), shard_count(sharding_of(table, id).spec, plan.mesh),
                             kMaxLocalShapes);
    d->counted = "parameter";
    d->help = "use smaller axes, or `uneven: error`";
  }
  if (!has_errors(diagnostics)) check_sum_of_shapes(plan, graph, table, diagnostics);
  if (const ParamId last = first_beyond_64_bits(graph, table); last != kNone) {
    const Param& param = graph.params[last];
    const std::string path = path_of(graph, param);
    report_message(diagnostics, Code::ResourceLimit, span_of(graph, param),
                   fmt::format("the total size of the model does not fit into 64 bits: `{}` has shape {}", path,
                               shape_text(shape_of(graph, param))),
                   fmt::format("check the shape of `{}`", path));
  }
}

}  // namespace tpplan
