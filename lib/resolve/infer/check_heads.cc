#include "resolve/infer/check_heads.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <optional>

#include "base/keyed_hash.h"
#include "base/text.h"
#include "model/attention_names.h"
#include "model/mlp_roles.h"
#include "model/module_kinds.h"
#include "model/name_subject.h"
#include "model/quantized.h"
#include "sharding/check_sharding.h"

namespace tpplan {
namespace {

// Returns the attributes of the nearest module with `num_heads`, at most two levels up; nullptr if there is none.
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

// True if a dim of this size is a fused q, k and v.
bool is_fused(const ModuleAttributes& a, int64_t size) {
  return a.head_dim > 0 && (a.num_heads + 2 * kv_heads(a)) * a.head_dim == size;
}

// Returns the heads of a projection's dim; heads == 0 if its size does not match. FusedInBlocks has segments q, k and
// v, and each rank holds heads of every segment, so the fewer kv heads limit the shards. FusedByHead is the layout of
// GPT-NeoX (transformers, GPTNeoXAttention: a view of [..., heads, 3 * head_size]). It stores q, k and v of a head
// together, so shards may end between heads. Falcon and Megatron group the queries of a kv head in this way.
HeadCount heads_of(HeadRole role, const ModuleAttributes& a, int64_t size) {
  const int64_t kv = kv_heads(a);
  const auto matched_count = [size](int64_t heads, int64_t head_dim, std::string_view what) {
    const int64_t granule = head_dim > 0 ? head_dim : heads > 0 && divides(heads, size) ? size / heads : 0;
    return granule > 0 && heads * granule == size ? HeadCount{heads, granule, what} : HeadCount{};
  };
  switch (role) {
    case HeadRole::Query:
    case HeadRole::Output:
      return matched_count(a.num_heads, a.head_dim, "heads");
    case HeadRole::Key:
    case HeadRole::Value:
      return matched_count(kv, a.head_dim, "kv heads");
    case HeadRole::FusedInBlocks:
      return is_fused(a, size) ? HeadCount{kv, a.head_dim, kv < a.num_heads ? "kv heads" : "heads"} : HeadCount{};
    case HeadRole::FusedByHead:
      if (kv < a.num_heads)
        return is_fused(a, size) ? HeadCount{kv, size / kv, "kv heads (each with its queries)"} : HeadCount{};
      return matched_count(a.num_heads, 3 * a.head_dim, "heads (q, k and v of each together)");
    default:
      return {};
  }
}

struct HeadCheck {
  const TpPlan& plan;
  const ModelGraph& graph;
  const ShardingTable& table;
  const std::vector<bool>& walk_failed;
  Diagnostics& diagnostics;
  bool fatal;
};

void report_split_heads(const HeadCheck& in, ParamId id, const Sharding& sharding, size_t dim, ModuleId owner,
                        const ModuleAttributes& a, const HeadCount& count, int64_t shards) {
  const RuleId rule = in.table.params[id].rule;
  const Span span = rule == kNoRule ? Span{} : in.plan.rules[rule].value_span;
  Diagnostic* d = report(in.diagnostics, in.fatal ? Code::HeadsSplit : Code::FrameworkSplitsHeads, span,
                         fmt::format("heads/{}/{}/{}", rule, count.heads, shards));
  if (d == nullptr) return;
  name_subject(*d, in.graph, in.graph.params[id]);
  const int64_t kv = kv_heads(a);
  const int64_t both[] = {a.num_heads, kv};
  std::vector<std::string> sizes;
  for (const int64_t divisor : common_divisors(both, shards)) sizes.push_back(std::to_string(divisor));
  std::vector<std::string> axes;
  for (const AxisId axis : sharding.spec[dim])
    axes.push_back(fmt::format("`{}` ({})", axis_name(in.plan.mesh, axis), in.plan.mesh.axes[axis].size));
  d->message = fmt::format("{} does not divide the {} {} in dim {} of `{}`: shards end inside heads", join(axes, " x "),
                           count.heads, count.what, dim, path_of(in.graph, in.graph.params[id]));
  d->label = count.heads < shards ? fmt::format("fewer {} than ranks", count.what)
                                  : fmt::format("{} / {} has remainder {}", count.heads, shards, count.heads % shards);
  d->counted = "parameter";
  d->notes.push_back({fmt::format("`{}` has num_heads {}, num_kv_heads {}, head_dim {}", in.graph.modules[owner].path,
                                  a.num_heads, kv, count.granule),
                      span_of(in.graph, in.graph.modules[owner])});
  if (!in.fatal)
    d->notes.push_back({fmt::format("{} loads this plan, but the forward pass fails when it splits the dim into heads",
                                    in.plan.dialect->name),
                        {}});
  d->help = fmt::format("use an axis size that does not split heads: {}", join(sizes, ", "));
  const bool replicates = count.heads < shards && count.what == "kv heads";
  // Replicating k and v alone does not help: the attention of a rank would combine its heads of q with all heads of k.
  if (replicates)
    d->help += in.plan.dialect->replicate_style.empty()
                   ? "; or gather the outputs of q, k and v (`output_layouts: Replicate`)"
                   : "; or gather the outputs of q, k and v (`colwise_gather_output`) and write "
                     "`rowwise_split_input` for the output projection";
}

void report_fused(const HeadCheck& in, ParamId id, size_t dim, const ModuleAttributes& a) {
  const RuleId rule = in.table.params[id].rule;
  Diagnostic* d = report(in.diagnostics, in.fatal ? Code::IndivisibleSegment : Code::FrameworkSplitsSegments,
                         rule == kNoRule ? Span{} : in.plan.rules[rule].value_span, fmt::format("fused/{}", rule));
  if (d == nullptr) return;
  name_subject(*d, in.graph, in.graph.params[id]);
  const int64_t kv = kv_heads(a);
  d->message = fmt::format("dim {} of `{}` contains q, k and v, but is sharded as one segment", dim,
                           path_of(in.graph, in.graph.params[id]));
  d->counted = "parameter";
  d->notes.push_back({"a rank would get rows of q only, but expects a shard of each of q, k and v",
                      span_of(in.graph, in.graph.params[id])});
  const bool contiguous = rule != kNoRule && in.plan.rules[rule].contiguous;
  if (contiguous)
    d->help = "use `fsdp:` if only FSDP shards this dim; otherwise remove `contiguous`";
  else
    d->help = fmt::format("name the segments in the model: \"segments\": {{\"out\": [{}, {}, {}]}}",
                          a.num_heads * a.head_dim, kv * a.head_dim, kv * a.head_dim);
}

// True if a fused dim stores q, k and v of each kv head together: the model file declares the size of one such group as
// its granularity.
bool shards_by_head(const ModelGraph& graph, const Param& param, size_t dim, const ModuleAttributes& a, int64_t size) {
  if (param.extras == kNone || !is_fused(a, size)) return false;
  const auto& given = graph.extras[param.extras].granularity;
  return std::find(given.begin(), given.end(), std::pair(dim, size / kv_heads(a))) != given.end();
}

// True if values are whole where the model unfolds and folds heads, so that shards may end inside of a head: the rule
// gathers the output of the projection, or takes a replicated input of the output projection and shards it itself.
bool has_complete_heads(const PlanRule& rule, HeadRole role) {
  if (rule.style == nullptr) return false;
  const bool folds = role == HeadRole::Output;
  const auto& layouts = folds ? rule.options.input_layouts : rule.options.output_layouts;
  if (layouts && !layouts->empty()) return layouts->front() && layouts->front()->kind == PlacementKind::Replicate;
  const BoundaryRow& row = folds ? rule.style->input : rule.style->output;
  return row.used && (folds ? row.from : row.to).kind == PlacementKind::Replicate;
}

void check_param(const HeadCheck& in, ParamId id, HeadRole role, ModuleId owner, const ModuleAttributes& a) {
  const Param& param = in.graph.params[id];
  const Module& module = in.graph.modules[param.module];
  const RuleId rule = in.table.params[id].rule;
  if (rule != kNoRule && !in.walk_failed.empty() && in.walk_failed[rule]) return;
  if (rule != kNoRule && has_complete_heads(in.plan.rules[rule], role)) return;
  if (find_companion(in.graph, id)) return;  // check_quantized checks scales
  const Sharding sharding = sharding_by_rule(in.table, in.plan, id);
  const int found = find_dim(dims_of(in.graph, module, param), role == HeadRole::Output ? kDimIn : kDimOut);
  if (found < 0) return;
  const auto dim = static_cast<size_t>(found);
  const int64_t shards = shard_count(sharding.spec[dim], in.plan.mesh), size = shape_of(in.graph, param)[dim];
  if (shards == 1) return;
  if (role == HeadRole::FusedInBlocks && shards_by_head(in.graph, param, dim, a, size)) role = HeadRole::FusedByHead;
  if (role == HeadRole::FusedInBlocks && segments_of(sharding, dim).empty()) {
    if (is_fused(a, size)) report_fused(in, id, dim, a);
    return;
  }
  const HeadCount count = heads_of(role, a, size);
  if (count.heads == 0) return;
  const DimGranularity heads[] = {{dim, count.granule}};
  // Divisibility is checked elsewhere, so uneven shards are allowed here; only boundaries inside a head are errors.
  for (const ShardingError& fault :
       check_sharding(shape_of(in.graph, param), sharding, in.plan.mesh, UnevenPolicy::Torch, heads)) {
    if (fault.kind == ShardingErrorKind::SplitsGranule)
      report_split_heads(in, id, sharding, dim, owner, a, count, shards);
  }
}

bool is_fused_role(HeadRole role) { return role == HeadRole::FusedInBlocks || role == HeadRole::FusedByHead; }

// The parts of a fused projection whose sizes are unknown, as TP5028 names them.
struct FusedParts {
  std::string reason;  // why the projection is fused, in a sentence with the dim as subject
  std::string_view first;
  std::string_view help;
};

FusedParts fused_qkv() {
  return {"is fused of q, k and v by its name, but their sizes are unknown", "q",
          "import the checkpoint with `--model-config config.json`, or write the sizes of q, k and v into the model as "
          "`segments` of `out`"};
}

// Returns the parts of an up projection that returns twice what the down projection reads.
std::optional<FusedParts> fused_gate_up(const ModelGraph& graph, ModuleId id) {
  if (mlp_role_of(graph, id) != MlpRole::FusedUp) return std::nullopt;
  const ModuleId down = find_down(graph, id);
  const int64_t hidden = down == kNone ? 0 : sizes_of_linear(graph, down).in;
  if (hidden == 0 || sizes_of_linear(graph, id).out != 2 * hidden) return std::nullopt;
  return FusedParts{fmt::format("has two rows for each of the {} features that `{}` reads, so it is fused of gate and "
                                "up, but their order is unknown",
                                hidden, leaf_of(graph, graph.modules[down].path)),
                    "gate",
                    "write the sizes of gate and up into the model as `segments` of `out` if the rows of up follow "
                    "those of gate"};
}

// Warns about a sharded projection that is fused by its name or size, if neither the model file nor head counts give
// the rows of its parts. With operations the walk decides.
void check_unknown_parts(const HeadCheck& in, ModuleId id, const FusedParts& parts) {
  const Module& module = in.graph.modules[id];
  for (ParamId param_id = module.first_param; param_id < module.first_param + module.param_count; ++param_id) {
    const Param& param = in.graph.params[param_id];
    const int dim = find_dim(dims_of(in.graph, module, param), kDimOut);
    const RuleId rule = in.table.params[param_id].rule;
    if (dim < 0 || param.ndim < 2 || rule == kNoRule) continue;
    const Sharding& sharding = sharding_of(in.table, param_id);
    const auto at = static_cast<size_t>(dim);
    const bool has_granularity = param.extras != kNone && !in.graph.extras[param.extras].granularity.empty();
    if (shard_count(sharding.spec[at], in.plan.mesh) == 1 || !segments_of(sharding, at).empty() || has_granularity ||
        has_complete_heads(in.plan.rules[rule], HeadRole::Query))
      continue;
    Diagnostic* d = report(in.diagnostics, Code::UnknownFusedParts, in.plan.rules[rule].value_span,
                           fmt::format("{}/{}", rule, leaf_of(in.graph, module.path)));
    if (d == nullptr) continue;
    name_subject(*d, in.graph, param);
    d->counted = "parameter";
    d->message = fmt::format("dim {} of `{}` {}: it is sharded as one segment, and a rank may get rows of {} only", dim,
                             path_of(in.graph, param), parts.reason, parts.first);
    d->help = parts.help;
  }
}

}  // namespace

bool splits_heads(const Mesh& mesh, const ModelGraph& graph, const Param& param, const Sharding& sharding) {
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
                     [](const ShardingError& fault) { return fault.kind == ShardingErrorKind::SplitsGranule; });
}

void check_heads(const TpPlan& plan, const ModelGraph& graph, const ShardingTable& table,
                 const std::vector<bool>& walk_failed, Diagnostics& diagnostics) {
  if (graph.attributes.empty() && graph.operations.is_there) return;
  const HeadCheck in{plan, graph, table, walk_failed, diagnostics, !plan.dialect->follows_framework};
  TextMap<std::string_view, HeadRole> roles;  // by leaf: a model has thousands of modules, and a dozen names
  for (ModuleId id = 0; id < graph.modules.size(); ++id) {
    const Module& module = graph.modules[id];
    if (module.kind != ModuleKind::Linear || module.param_count == 0) continue;
    const auto [known, is_new] = roles.try_emplace(leaf_of(graph, module.path), HeadRole::None);
    if (is_new) known->second = role_of(known->first);
    const HeadRole role = known->second;
    ModuleId owner = kNone;
    const ModuleAttributes* attributes = role == HeadRole::None ? nullptr : head_attributes(graph, id, owner);
    if (!graph.operations.is_there) {
      if (attributes == nullptr && is_fused_role(role)) check_unknown_parts(in, id, fused_qkv());
      if (const auto parts = fused_gate_up(graph, id)) check_unknown_parts(in, id, *parts);
    }
    if (attributes == nullptr) continue;
    for (ParamId param = module.first_param; param < module.first_param + module.param_count; ++param) {
      if (!is_replicated(sharding_of(table, param).spec)) check_param(in, param, role, owner, *attributes);
    }
  }
}

}  // namespace tpplan
