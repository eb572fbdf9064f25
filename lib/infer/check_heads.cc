#include "infer/check_heads.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/keyed_hash.h"
#include "base/text.h"
#include "model/attention_names.h"
#include "model/module_kinds.h"
#include "sharding/check_sharding.h"

namespace tpplan {
namespace {

// Attributes of the nearest module at or above with heads: at most two levels up.
const ModuleAttributes* head_attributes(const ModelGraph& graph, ModuleId id, ModuleId& owner) {
  for (int level = 0; level < 3 && id != kNone; ++level, id = parent_of(graph, id)) {
    const Module& module = graph.modules[id];
    if (module.attributes == kNone || graph.attributes[module.attributes].num_heads == 0) continue;
    owner = id;
    return &graph.attributes[module.attributes];
  }
  return nullptr;
}

struct HeadCount {
  int64_t heads = 0;
  int64_t granule = 0;  // elements that belong to one head
  std::string_view what;
};

int64_t kv_heads(const ModuleAttributes& a) { return a.num_kv_heads > 0 ? a.num_kv_heads : a.num_heads; }

// Whether a dim of this size holds q, k and v.
bool is_fused(const ModuleAttributes& a, int64_t size) {
  return a.head_dim > 0 && (a.num_heads + 2 * kv_heads(a)) * a.head_dim == size;
}

// How the dim of a projection is made up of heads; heads == 0 when its size does not say so. FusedInBlocks has parts of
// q, k and v, and ranks hold heads of each: those of k and v are the fewer. FusedByHead is the layout of GPT-NeoX
// (transformers, GPTNeoXAttention: a view of [..., heads, 3 * head_size]): q, k and v of a head stand together, and
// cuts between heads are right. Falcon and Megatron have the heads of one k and v together so.
HeadCount heads_of(HeadRole role, const ModuleAttributes& a, int64_t size) {
  const int64_t kv = kv_heads(a);
  const auto whole = [size](int64_t heads, int64_t head_dim, std::string_view what) {
    const int64_t granule = head_dim > 0 ? head_dim : heads > 0 && divides(heads, size) ? size / heads : 0;
    return granule > 0 && heads * granule == size ? HeadCount{heads, granule, what} : HeadCount{};
  };
  switch (role) {
    case HeadRole::Query:
    case HeadRole::Output:
      return whole(a.num_heads, a.head_dim, "heads");
    case HeadRole::Key:
    case HeadRole::Value:
      return whole(kv, a.head_dim, "kv heads");
    case HeadRole::FusedInBlocks:
      return is_fused(a, size) ? HeadCount{kv, a.head_dim, kv < a.num_heads ? "kv heads" : "heads"} : HeadCount{};
    case HeadRole::FusedByHead:
      if (kv < a.num_heads)
        return is_fused(a, size) ? HeadCount{kv, size / kv, "kv heads (each with its queries)"} : HeadCount{};
      return whole(a.num_heads, 3 * a.head_dim, "heads (q, k and v of each together)");
    default:
      return {};
  }
}

struct HeadCheck {
  const TpPlan& plan;
  const ModelGraph& graph;
  const ShardingTable& table;
  Diagnostics& diagnostics;
  bool fatal;
};

void report_cut_heads(const HeadCheck& in, ParamId id, size_t dim, ModuleId owner, const ModuleAttributes& a,
                      const HeadCount& count, int64_t ways) {
  const RuleId rule = in.table.params[id].rule;
  const Span span = rule == kNoRule ? Span{} : in.plan.rules[rule].value_span;
  Diagnostic* d = report(in.diagnostics, in.fatal ? Code::TP5007 : Code::TP5008, span,
                         fmt::format("heads/{}/{}/{}", rule, count.heads, ways));
  if (d == nullptr) return;
  const int64_t kv = kv_heads(a);
  const int64_t both[] = {a.num_heads, kv};
  std::vector<std::string> sizes;
  for (const int64_t divisor : common_divisors(both, ways)) sizes.push_back(std::to_string(divisor));
  std::vector<std::string> axes;
  for (const AxisId axis : sharding_of(in.table, id).spec[dim])
    axes.push_back(fmt::format("`{}` ({})", axis_name(in.plan.mesh, axis), in.plan.mesh.axes[axis].size));
  d->message = fmt::format("{} cuts through the {} {} of dim {} of `{}`", join(axes, " x "), count.heads, count.what,
                           dim, path_of(in.graph, in.graph.params[id]));
  d->label = count.heads < ways ? fmt::format("fewer {} than ranks", count.what)
                                : fmt::format("{} / {} leaves {}", count.heads, ways, count.heads % ways);
  d->counted = "parameter";
  d->notes.push_back({fmt::format("`{}` has num_heads {}, num_kv_heads {}, head_dim {}", in.graph.modules[owner].path,
                                  a.num_heads, kv, count.granule),
                      span_of(in.graph, in.graph.modules[owner])});
  if (!in.fatal)
    d->notes.push_back(
        {fmt::format("{} loads this, and fails when the heads are unfolded in the forward pass", in.plan.dialect->name),
         {}});
  d->help = fmt::format("sizes that keep heads whole: {}", join(sizes, ", "));
  const bool whole = count.heads < ways && count.what == "kv heads";
  if (whole)
    d->help += in.plan.dialect->keep_whole.empty()
                   ? "; or leave k and v without a rule"
                   : fmt::format("; or keep k and v whole with `{}`", in.plan.dialect->keep_whole);
}

void report_fused(const HeadCheck& in, ParamId id, size_t dim, const ModuleAttributes& a) {
  const RuleId rule = in.table.params[id].rule;
  Diagnostic* d = report(in.diagnostics, in.fatal ? Code::TP5005 : Code::TP5013,
                         rule == kNoRule ? Span{} : in.plan.rules[rule].value_span, fmt::format("fused/{}", rule));
  if (d == nullptr) return;
  const int64_t kv = kv_heads(a);
  d->message = fmt::format("dim {} of `{}` holds q, k and v, and is cut as one piece", dim,
                           path_of(in.graph, in.graph.params[id]));
  d->counted = "parameter";
  d->notes.push_back({"ranks would get rows of q where they expect a part of each of q, k and v",
                      span_of(in.graph, in.graph.params[id])});
  const bool contiguous = rule != kNoRule && in.plan.rules[rule].contiguous;
  if (contiguous)
    d->help = "let `fsdp:` make a cut that is FSDP's; else remove `contiguous`";
  else
    d->help = fmt::format("name the segments in the model: \"segments\": {{\"out\": [{}, {}, {}]}}",
                          a.num_heads * a.head_dim, kv * a.head_dim, kv * a.head_dim);
}

// Whether the model file says of a dim whose name is one of blocks that each kv head has its q, k and v together: its
// granularity is what one of them has.
bool says_by_head(const ModelGraph& graph, const Param& param, size_t dim, const ModuleAttributes& a, int64_t size) {
  if (param.extras == kNone || !is_fused(a, size)) return false;
  const auto& given = graph.extras[param.extras].granularity;
  return std::find(given.begin(), given.end(), std::pair(dim, size / kv_heads(a))) != given.end();
}

void check_param(const HeadCheck& in, ParamId id, HeadRole role, ModuleId owner, const ModuleAttributes& a) {
  const Param& param = in.graph.params[id];
  const Module& module = in.graph.modules[param.module];
  const Sharding& sharding = sharding_of(in.table, id);
  const int found = find_dim(dims_of(in.graph, module, param), role == HeadRole::Output ? kDimIn : kDimOut);
  if (found < 0) return;
  const auto dim = static_cast<size_t>(found);
  const int64_t ways = shard_count(sharding.spec[dim], in.plan.mesh), size = shape_of(in.graph, param)[dim];
  if (ways == 1) return;
  if (role == HeadRole::FusedInBlocks && says_by_head(in.graph, param, dim, a, size)) role = HeadRole::FusedByHead;
  if (role == HeadRole::FusedInBlocks && segments_of(sharding, dim).empty()) {
    if (is_fused(a, size)) report_fused(in, id, dim, a);
    return;
  }
  const HeadCount count = heads_of(role, a, size);
  if (count.heads == 0) return;
  const DimGranularity heads[] = {{dim, count.granule}};
  // Sizes have been checked before; here they may be uneven, and only boundaries inside a head are asked for.
  for (const ShardingFault& fault :
       check_sharding(shape_of(in.graph, param), sharding, in.plan.mesh, UnevenPolicy::Torch, heads)) {
    if (fault.kind == ShardingFaultKind::CutsGranule) report_cut_heads(in, id, dim, owner, a, count, ways);
  }
}

}  // namespace

bool cuts_heads(const Mesh& mesh, const ModelGraph& graph, const Param& param, const Sharding& sharding) {
  const Module& module = graph.modules[param.module];
  const HeadRole role = module.kind == ModuleKind::Linear ? role_of(leaf_of(graph, module.path)) : HeadRole::None;
  ModuleId owner = kNone;
  const ModuleAttributes* attributes = role == HeadRole::None ? nullptr : head_attributes(graph, param.module, owner);
  const int dim =
      attributes == nullptr ? -1 : find_dim(dims_of(graph, module, param), role == HeadRole::Output ? kDimIn : kDimOut);
  if (dim < 0) return false;
  const HeadCount count = heads_of(role, *attributes, shape_of(graph, param)[static_cast<size_t>(dim)]);
  if (count.heads == 0) return false;
  const DimGranularity heads[] = {{static_cast<size_t>(dim), count.granule}};
  const auto faults = check_sharding(shape_of(graph, param), sharding, mesh, UnevenPolicy::Torch, heads);
  return std::any_of(faults.begin(), faults.end(),
                     [](const ShardingFault& fault) { return fault.kind == ShardingFaultKind::CutsGranule; });
}

void check_heads(const TpPlan& plan, const ModelGraph& graph, const ShardingTable& table, Diagnostics& diagnostics) {
  if (graph.attributes.empty()) return;
  const HeadCheck in{plan, graph, table, diagnostics, !plan.dialect->follows_framework};
  TextMap<std::string_view, HeadRole> roles;  // by leaf: a model has thousands of modules, and a dozen names
  for (ModuleId id = 0; id < graph.modules.size(); ++id) {
    const Module& module = graph.modules[id];
    if (module.kind != ModuleKind::Linear || module.param_count == 0) continue;
    const auto [known, is_new] = roles.try_emplace(leaf_of(graph, module.path), HeadRole::None);
    if (is_new) known->second = role_of(known->first);
    const HeadRole role = known->second;
    ModuleId owner = kNone;
    const ModuleAttributes* attributes = role == HeadRole::None ? nullptr : head_attributes(graph, id, owner);
    if (attributes == nullptr) continue;
    for (ParamId param = module.first_param; param < module.first_param + module.param_count; ++param) {
      if (!is_replicated(sharding_of(table, param).spec)) check_param(in, param, role, owner, *attributes);
    }
  }
}

}  // namespace tpplan
