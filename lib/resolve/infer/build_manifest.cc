#include "resolve/infer/build_manifest.h"

#include <functional>
#include <tuple>

#include "base/keyed_hash.h"
#include "manifest/rule_facts.h"
#include "model/module_kinds.h"
#include "resolve/infer/grad_reduce.h"
#include "resolve/infer/rule_boundary.h"

namespace tpplan {
namespace {

struct ManifestBuilder {
  const TpPlan& plan;
  const ModelGraph& graph;
  const ShardingTable& table;
  const InitTable& init;
  const PatternMatches& patterns;
  PlanRuntime runtime;
  Manifest& manifest;
  TextMap<std::string, uint32_t> layout_index;
  std::string key;  // reused
};

// True for kinds of modules that the manifest names, because code that runs their operation needs the kind.
bool names_kind(ModuleKind kind) {
  return kind == ModuleKind::Linear || kind == ModuleKind::Embedding || kind == ModuleKind::Norm;
}

std::span<const std::string_view> named_dims(const ModelGraph& graph, const Param& param) {
  const Module& module = graph.modules[param.module];
  const bool named = !param.is_buffer && (module.kind == ModuleKind::Linear || module.kind == ModuleKind::Embedding);
  return named ? dims_of(graph, module, param) : std::span<const std::string_view>();
}

ParamLayout make_layout(const ManifestBuilder& b, const Param& param, const Sharding& sharding, RuleId rule,
                        Reason reason, uint32_t init) {
  ParamLayout layout;
  const std::span<const int64_t> shape = shape_of(b.graph, param);
  layout.shape.assign(shape.begin(), shape.end());
  layout.dtype = param.dtype;
  layout.sharding = sharding;
  // Segments of a dim that only FSDP shards do not matter: FSDP shards the dim as one.
  layout.placements = placements_of(sharding, b.plan.mesh);
  layout.local_shapes = list_local_shapes(shape, sharding, b.plan.mesh);
  if (rule != kNoRule)
    layout.style = b.plan.rules[rule].style != nullptr ? std::string(b.plan.rules[rule].style->name) : "spec";
  layout.rule = rule;
  layout.reason = to_text(reason);
  layout.replicas = device_count(b.plan.mesh) / shard_count(sharding.spec, b.plan.mesh);
  if (!param.is_buffer) {
    layout.norm_divisor = layout.replicas;
    layout.grad_reduce = grad_reduce_of(b.plan, sharding, rule, b.runtime);
    layout.steps = param_steps(shape, sharding, layout.grad_reduce, data_axes_of(b.plan), b.plan.mesh);
  }
  const ModuleKind kind = b.graph.modules[param.module].kind;
  if (!param.is_buffer && names_kind(kind)) layout.kind = to_text(kind);
  for (const std::string_view dim : named_dims(b.graph, param)) layout.dims.emplace_back(dim);
  if (init != kNone) layout.init = init;
  return layout;
}

// Returns the interned layout of a parameter. The key must hold everything that make_layout reads; otherwise different
// parameters would share a layout.
uint32_t intern_layout(ManifestBuilder& b, const Param& param, const Sharding& sharding, uint32_t sharding_id,
                       RuleId rule, Reason reason, uint32_t init) {
  const std::span<const int64_t> shape = shape_of(b.graph, param);
  b.key.assign(reinterpret_cast<const char*>(shape.data()), shape.size_bytes());
  const uint32_t facts[] = {
      sharding_id, rule,
      static_cast<uint32_t>(reason) << 16 | static_cast<uint32_t>(param.dtype) << 8 | param.is_buffer,
      static_cast<uint32_t>(b.graph.modules[param.module].kind), init};
  b.key.append(reinterpret_cast<const char*>(facts), sizeof facts);
  for (const std::string_view dim : named_dims(b.graph, param)) b.key.append(dim).push_back('\0');
  const auto [known, is_new] = b.layout_index.try_emplace(b.key, static_cast<uint32_t>(b.manifest.layouts.size()));
  if (is_new) b.manifest.layouts.push_back(make_layout(b, param, sharding, rule, reason, init));
  return known->second;
}

void add_params(ManifestBuilder& b) {
  b.manifest.parameters.reserve(b.graph.params.size());
  for (ParamId id = 0; id < b.graph.params.size(); ++id) {
    const ParamSharding& p = b.table.params[id];
    const uint32_t layout = intern_layout(b, b.graph.params[id], b.table.shardings[p.sharding], p.sharding, p.rule,
                                          p.reason, b.init.params[id].distribution);
    b.manifest.parameters.push_back({.layout = layout});
  }
  for (size_t i = 0; i < b.graph.buffers.size(); ++i) {
    const Param& buffer = b.graph.buffers[i];
    const Sharding replicated{.spec = replicated_spec(buffer.ndim), .segments = {}};
    b.manifest.buffers.push_back({.layout = intern_layout(b, buffer, replicated, kNone, kNoRule, Reason::Default,
                                                          b.init.buffers[i].distribution)});
  }
}

std::vector<ManifestValue> values(const std::vector<ValueBoundary>& boundaries) {
  std::vector<ManifestValue> out;
  for (const ValueBoundary& v : boundaries) {
    out.push_back({.arg = v.arg,
                   .kwarg = v.kwarg,
                   .from = v.from,
                   .to = v.to,
                   .gradient = v.gradient,
                   .use_local = v.use_local,
                   .forward = v.forward,
                   .backward = v.backward,
                   .forward_dtype = v.forward_dtype,
                   .backward_dtype = v.backward_dtype});
  }
  return out;
}

// Copies the communication dtypes of a layout to its rule.
void note_sent_dtypes(ManifestRule& rule, const ModuleLayout& layout) {
  for (const auto* side : {&layout.inputs, &layout.outputs}) {
    for (const ManifestValue& value : *side) {
      if (value.forward_dtype) rule.forward_dtype = value.forward_dtype;
      if (value.backward_dtype) rule.backward_dtype = value.backward_dtype;
    }
  }
}

std::vector<std::string> paths_of(const ModelGraph& graph, const std::vector<ModuleId>& modules) {
  std::vector<std::string> paths;
  for (const ModuleId id : modules) paths.emplace_back(graph.modules[id].path);
  return paths;
}

void add_settings(ManifestBuilder& b) {
  const TpPlan& plan = b.plan;
  if (plan.data) b.manifest.data = ManifestData{.axes = plan.data->axes, .dim = plan.data->dim};
  b.manifest.loss = resolved_loss(plan, data_grad_reduction(b.runtime));
  b.manifest.remat = paths_of(b.graph, b.patterns.remat);
  for (const LocalModule& local : b.patterns.local_modules) {
    if (!b.manifest.local_attributes) b.manifest.local_attributes.emplace().axis = plan.axis;
    b.manifest.local_attributes->modules.push_back(
        {std::string(b.graph.modules[local.module].path), {local.divided.begin(), local.divided.end()}});
  }
  if (!plan.fsdp) return;
  b.manifest.fsdp = ManifestFsdp{.axis = plan.fsdp->axis,
                                 .policy = std::string(plan.fsdp->policy->name),
                                 .min_weight_size = plan.fsdp->min_weight_size,
                                 .units = paths_of(b.graph, b.patterns.fsdp_units)};
  if (plan.fsdp->units.empty()) b.manifest.fsdp->units.emplace_back();
}

}  // namespace

Manifest build_manifest(const TpPlan& plan, const ModelGraph& graph, const MatchTable& matches,
                        const ShardingTable& table, const BoundaryTable& boundaries, const InitTable& init,
                        PlanRuntime runtime) {
  Manifest manifest;
  manifest.model_name = graph.name;
  manifest.mesh = plan.mesh;
  manifest.uneven = uneven_policy_of(plan);
  manifest.distributions = init.distributions;
  for (RuleId id = 0; id < plan.rules.size(); ++id) {
    const PlanRule& rule = plan.rules[id];
    manifest.rules.push_back({.block = rule.block == kNoRule ? "" : plan.blocks[rule.block].text,
                              .in_block = rule.block != kNoRule,
                              .key = rule.key,
                              .line = rule.line,
                              .matches = match_count(rule, matches.rules[id]),
                              .modules = 0,
                              .forward_dtype = {},
                              .backward_dtype = {},
                              .sums = grad_reduce_axis(rule),
                              .holds = {},
                              .boundary = boundary_of(rule)});
  }
  ManifestBuilder builder{.plan = plan,
                          .graph = graph,
                          .table = table,
                          .init = init,
                          .patterns = matches.patterns,
                          .runtime = runtime,
                          .manifest = manifest,
                          .layout_index = {},
                          .key = {}};
  add_params(builder);
  for (const BoundaryLayout& layout : boundaries.layouts) {
    manifest.module_layouts.push_back({.style = std::string(plan.rules[layout.rule].style->name),
                                       .rule = layout.rule,
                                       .inputs = values(layout.inputs),
                                       .outputs = values(layout.outputs)});
    note_sent_dtypes(manifest.rules[layout.rule], manifest.module_layouts.back());
  }
  manifest.modules.reserve(boundaries.modules.size());
  for (const ModuleBoundary& boundary : boundaries.modules) {
    ++manifest.rules[manifest.module_layouts[boundary.layout].rule].modules;
    manifest.modules.push_back({.layout = boundary.layout});
  }
  add_settings(builder);
  for (const auto& [follower, leader] : table.followers) {
    const bool joins =
        !manifest.tied.empty() && manifest.tied.back()[0] == leader;  // followers of a tensor are consecutive
    if (joins)
      manifest.tied.back().push_back(follower);
    else
      manifest.tied.push_back({leader, follower});
  }
  std::ignore = sum_totals(manifest);  // check_limits has checked that they fit into 64 bits
  return manifest;
}

ManifestPaths paths_of(const ModelGraph& graph, const BoundaryTable& boundaries) {
  const auto paths_in = [&graph](const std::vector<Param>& params) {
    return [&graph, &params, path = std::string()](uint32_t i) mutable -> std::string_view {
      assign_path(path, graph, params[i]);
      return path;
    };
  };
  return {.parameter = paths_in(graph.params),
          .buffer = paths_in(graph.buffers),
          .module = [&graph, &boundaries](uint32_t i) { return graph.modules[boundaries.modules[i].module].path; }};
}

void add_paths(Manifest& manifest, const ManifestPaths& paths) {
  const auto add = [&manifest](auto& list, const std::function<std::string_view(uint32_t)>& path_of_row) {
    for (uint32_t i = 0; i < list.size(); ++i) {
      const std::string_view path = path_of_row(i);
      list[i].name_begin = manifest.names.size();
      list[i].name_length = static_cast<uint32_t>(path.size());
      manifest.names += path;
    }
  };
  add(manifest.parameters, paths.parameter);
  add(manifest.buffers, paths.buffer);
  add(manifest.modules, paths.module);
}

void add_rule_facts(Manifest& manifest, const ModelGraph& graph, const BoundaryTable& boundaries) {
  const std::vector<KindCounts> held = count_module_kinds(manifest);
  std::vector<bool> has_params;
  has_params.reserve(boundaries.modules.size());
  for (const ModuleBoundary& boundary : boundaries.modules)
    has_params.push_back(graph.modules[boundary.module].param_count > 0);
  const std::vector<uint64_t> bare = count_empty_modules(manifest, paths_of(graph, boundaries), has_params);
  for (size_t i = 0; i < manifest.rules.size(); ++i) {
    manifest.rules[i].holds = held[i];
    if (manifest.rules[i].boundary) manifest.rules[i].boundary->bare = bare[i];
  }
}

}  // namespace tpplan
