// The transformers dialect: transformers 5.23, distributed/tensor_parallel.py and expert_parallel.py.
#include <spdlog/fmt/fmt.h>

#include <string>

#include "base/keyed_hash.h"
#include "model/module_kinds.h"
#include "model/quantized.h"
#include "resolve/infer/sharding_table.h"
#include "resolve/infer/style_dim.h"
#include "resolve/match/rule_scopes.h"
#include "sharding/tensor_size.h"

namespace tpplan {
namespace {

// ---- matching: exact look-up after `.12.` becomes `.*.`; for a parameter without a match, its weight and then its
// module's path ----

// Returns Python's re.sub(r"\.\d+(\.|$)", r".*\1", name): a part of digits becomes `*`. The match consumes the next
// dot, so every second of several consecutive numeric parts remains (replace_layer_number_by_wildcard in
// distributed/parallel_utils.py).
std::string normalised(std::string_view name) {
  std::string out;
  for (size_t i = 0; i < name.size();) {
    size_t digits = i + 1;
    while (name[i] == '.' && digits < name.size() && name[digits] >= '0' && name[digits] <= '9') ++digits;
    const bool numeric = name[i] == '.' && digits > i + 1 && (digits == name.size() || name[digits] == '.');
    if (!numeric) {
      out += name[i++];
      continue;
    }
    out += ".*";
    i = digits;
    if (i < name.size()) out += name[i++];
  }
  return out;
}

using RulesByKey = TextMap<std::string_view, RuleId>;

void match_transformers(const TpPlan& plan, const ModelGraph& graph, MatchTable& table, Diagnostics& diagnostics,
                        KeyHits*) {
  const RuleScopes scopes = rule_scopes(plan, graph, diagnostics);
  std::vector<RulesByKey> keys(scopes.list.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    for (const RuleId id : scopes.list[i].rules) {
      if (!plan.rules[id].key.empty()) keys[i].emplace(plan.rules[id].key, id);  // transformers drops empty keys too
    }
  }
  const auto look_up = [&](size_t scope, std::string_view name) {
    const auto found = keys[scope].find(name);
    return found == keys[scope].end() ? kNoRule : found->second;
  };
  std::vector<EnclosingScope> enclosing;
  std::string path;
  for (ModuleId id = 0; id < graph.modules.size(); ++id) {
    const Module& module = graph.modules[id];
    enclosing_scopes(graph, scopes, id, enclosing);
    for (const EnclosingScope at : enclosing) {
      const size_t scope = at.scope;
      const std::string module_name = normalised(relative_path(graph, at, module.path));
      const RuleId module_rule = look_up(scope, module_name);
      for (ParamId param = module.first_param; param < module.first_param + module.param_count; ++param) {
        assign_path(path, graph, graph.params[param]);
        const std::string name = normalised(relative_path(graph, at, path));
        RuleId rule = look_up(scope, name);
        if (rule == kNoRule) rule = look_up(scope, quantizer_stem(name));
        const bool exact = rule != kNoRule;
        const size_t dot = name.rfind('.');
        if (!exact && dot != std::string::npos) rule = look_up(scope, std::string_view(name).substr(0, dot));
        if (rule == kNoRule) continue;
        ++table.rules[rule].parameters;
        table.rules[rule].addressed = true;
        const RuleId earlier = table.params[param].rule;
        if (earlier != kNoRule && earlier != rule) {
          report_equal_rules(plan, earlier, rule, path, has_same_effect(plan.rules[earlier], plan.rules[rule]),
                             diagnostics);
          continue;
        }
        ++table.rules[rule].governed;
        table.params[param] = {.rule = rule, .by_module = !exact};
      }
      if (module_rule == kNoRule) continue;
      table.rules[module_rule].addressed = true;
      ++table.rules[module_rule].modules;
      table.boundaries.push_back({id, module_rule});
    }
  }
}

// ---- sharded dims: selected by the number of dims ----

// True if the module has the attribute that the style reads; reports it otherwise. ColwiseParallel.install_forward
// reads `out_features` and RowwiseParallel.install_forward reads `in_features`; they raise ValueError without it. Rules
// for parameters do not install a forward.
bool supports_features(const InferenceInput& in, const ParamMatch& match, const Module& module) {
  const StyleRow& style = *in.plan.rules[match.rule].style;
  const Features needed = style.shard_dim == kDimOut ? kOutFeatures : kInFeatures;
  if (style.modules != StyleModules::LinearOrEmbedding || (features_of(in.graph, module) & needed) != 0) return true;
  report_unsupported(in, match, module,
                     fmt::format("{} shards linear layers, but `{}` is {}, which has no `{}_features`", style.name,
                                 module.path, type_of(in.graph, module), style.shard_dim),
                     module.kind == ModuleKind::Embedding ? "use embedding_rowwise or embedding_colwise"
                                                          : "name the parameter itself, or a linear layer");
  return false;
}

// Returns the dim that shard_param of the style's class shards, for any module: the columns at_one_dim and at_more_dims
// of the style table.
StyleDim shard_by_position(const InferenceInput& in, const ParamMatch& match, const Module& module,
                           const Param& param) {
  const StyleRow& style = *in.plan.rules[match.rule].style;
  if (style.is_bias_replicated && param.name == "bias") return {};
  // quantizer_finegrained_fp8.py replicates the scalars of quantized weights.
  if (param.ndim == 0 && find_companion(in.graph, static_cast<ParamId>(&param - in.graph.params.data()))) return {};
  const DimPosition position = param.ndim == 0 ? kRejects : param.ndim == 1 ? style.at_one_dim : style.at_more_dims;
  if (position == kNoShardedDim) return {};
  const int dim = position < 0 ? position + param.ndim : position;
  if (position != kRejects && dim >= 0 && dim < param.ndim) return {StyleDimKind::Dim, static_cast<size_t>(dim)};
  report_unsupported(in, match, module,
                     fmt::format("{} cannot shard `{}` of shape {}", style.name, path_of(in.graph, param),
                                 shape_text(shape_of(in.graph, param))),
                     "");
  return {StyleDimKind::Error};
}

// ---- modules that transformers rejects ----

// Reports a parameter that another rule shards, in a module under sequence_parallel. transformers calls
// DTensor.from_local on every parameter of the module (SequenceParallel.install_forward), which fails for a DTensor.
void check_replicated_params(const InferenceInput& in, const BoundaryMatch& match, const Module& module,
                             const MatchTable& matches, const ShardingTable& table) {
  const StyleRow& style = *in.plan.rules[match.rule].style;
  if (!style.wraps_parameters) return;
  for (ParamId id = module.first_param; id < module.first_param + module.param_count; ++id) {
    if (matches.params[id].rule == match.rule || is_replicated(sharding_of(table, id).spec)) continue;
    report_unsupported(in, {.rule = match.rule, .by_module = true}, module,
                       fmt::format("{} replicates the parameters of `{}`, but `{}` shards its `{}`", style.name,
                                   module.path, in.plan.rules[matches.params[id].rule].key, in.graph.params[id].name),
                       "remove one of the two rules: transformers raises an error here");
    return;
  }
}

void check_transformers_modules(const InferenceInput& in, const MatchTable& matches, const ShardingTable& table) {
  for (const BoundaryMatch& match : matches.boundaries) {
    if (in.plan.rules[match.rule].style == nullptr) continue;
    check_replicated_params(in, match, in.graph.modules[match.module], matches, table);
    check_boundary_module(in, matches, match);
  }
}

}  // namespace

constexpr DialectRow kTransformersDialect = {.name = "transformers",
                                             .styles = kTransformersStyles,
                                             .runtime = PlanRuntime::Transformers,
                                             .keys_are_names = true,
                                             .dead_rule = Code::UnmatchedShippedRule,
                                             .follows_framework = true,
                                             .ties_after_sharding = true,
                                             .passes_global_sizes = true,
                                             .sequence_norm_style = "replicated_with_grad_allreduce",
                                             .match = match_transformers,
                                             .supports_module = supports_features,
                                             .dim_of_style = shard_by_position,
                                             .check_modules = check_transformers_modules};

}  // namespace tpplan
