// The transformers dialect: transformers 5.23, distributed/tensor_parallel.py and expert_parallel.py.
#include <spdlog/fmt/fmt.h>

#include <string>

#include "base/keyed_hash.h"
#include "infer/sharding_table.h"
#include "infer/style_cut.h"
#include "match/rule_scopes.h"
#include "model/module_kinds.h"
#include "sharding/tensor_size.h"

namespace tpplan {
namespace {

// ---- which rule: `.12.` becomes `.*.`, then an exact look-up; parameters also one level up ----

// Python's re.sub(r"\.\d+(\.|$)", r".*\1", name): a part that is all digits becomes `*`. The dot behind it is consumed,
// so that of consecutive numeric parts every second one stays. (replace_layer_number_by_wildcard in
// distributed/parallel_utils.py.)
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
      if (!plan.rules[id].key.empty()) keys[i].emplace(plan.rules[id].key, id);  // the empty key is dropped there too
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
        const bool exact = rule != kNoRule;
        const size_t dot = name.rfind('.');
        if (!exact && dot != std::string::npos) rule = look_up(scope, std::string_view(name).substr(0, dot));
        if (rule == kNoRule) continue;
        ++table.rules[rule].parameters;
        table.rules[rule].addressed = true;
        const RuleId earlier = table.params[param].rule;
        if (earlier != kNoRule && earlier != rule) {
          report_clash(plan, earlier, rule, path, same_treatment(plan.rules[earlier], plan.rules[rule]), diagnostics);
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

// ---- which dim: the number of dims decides ----

// ColwiseParallel.install_forward asks the module for `out_features`, RowwiseParallel.install_forward for
// `in_features`, and they raise ValueError without it. A rule for a parameter installs nothing, and is not asked.
bool supports_features(const Inference& in, const ParamMatch& match, const Module& module) {
  const StyleRow& style = *in.plan.rules[match.rule].style;
  const Features asked = style.cut_dim == kDimOut ? kOutFeatures : kInFeatures;
  if (style.modules != StyleModules::LinearOrEmbedding || (features_of(in.graph, module) & asked) != 0) return true;
  report_unsupported(in, match, module,
                     fmt::format("{} shards linear layers, and `{}` is {}, which has no `{}_features`", style.name,
                                 module.path, type_of(in.graph, module), style.cut_dim),
                     module.kind == ModuleKind::Embedding ? "use embedding_rowwise or embedding_colwise"
                                                          : "name the parameter itself, or a linear layer");
  return false;
}

// What shard_param of the style's class does, whatever the module is: the columns at_one_dim and at_more_dims of the
// style table.
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

// ---- modules that transformers refuses ----

// transformers' sequence_parallel wraps the module's own parameters, and fails on one that another rule has made a
// DTensor. (SequenceParallel.install_forward: DTensor.from_local of every parameter.)
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

void check_transformers_modules(const Inference& in, const MatchTable& matches, const ShardingTable& table) {
  for (const BoundaryMatch& match : matches.boundaries) {
    if (in.plan.rules[match.rule].style == nullptr) continue;
    check_replicated_params(in, match, in.graph.modules[match.module], matches, table);
    check_unasked_module(in, matches, match);
  }
}

}  // namespace

constexpr DialectRow kTransformersDialect = {.name = "transformers",
                                             .styles = kTransformersStyles,
                                             .runtime = PlanRuntime::Transformers,
                                             .dead_rule = Code::TP4002,
                                             .follows_framework = true,
                                             .passes_whole_sizes_on = true,
                                             .norm_beside_sequence = "replicated_with_grad_allreduce",
                                             .match = match_transformers,
                                             .supports_module = supports_features,
                                             .cut = cut_by_position,
                                             .check_modules = check_transformers_modules};

}  // namespace tpplan
