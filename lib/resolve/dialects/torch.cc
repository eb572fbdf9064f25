// The torch dialect: torch 2.13, torch/distributed/tensor/parallel: api.py (parallelize_module) and style.py.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <span>

#include "base/keyed_hash.h"
#include "base/text.h"
#include "model/module_kinds.h"
#include "model/name_subject.h"
#include "resolve/dialects/shard_by_name.h"
#include "resolve/infer/sharding_table.h"
#include "resolve/match/pattern.h"
#include "resolve/match/rule_scopes.h"
#include "resolve/match/select_modules.h"
#include "sharding/tensor_size.h"

namespace tpplan {
namespace {

// ---- matching: fnmatch of each dotted part of a key with the names of child modules; every match applies ----

// The glob parts of all keys, each with the sorted module names that it matches.
struct TorchAtoms {
  TextMap<std::string_view, size_t> index;
  std::vector<std::vector<std::string_view>> names;
};

struct TorchWalk {
  const TpPlan& plan;
  const ModelGraph& graph;
  MatchTable& table;
  Diagnostics& diagnostics;
  std::vector<std::vector<ModuleId>> children;  // by ModuleId, in file order
  std::vector<RuleId> distributed_by;           // by ModuleId: the rule whose style distributes the module
  TorchAtoms atoms;
};

// Matches every distinct glob part against every distinct module name once.
TorchAtoms match_atoms(const TpPlan& plan, const ModelGraph& graph) {
  TorchAtoms atoms;
  std::vector<std::string> expressions;
  for (const PlanRule& rule : plan.rules) {
    for (const std::string_view atom : split(rule.key, '.')) {
      if (is_glob(atom) && atoms.index.try_emplace(atom, expressions.size()).second) expressions.emplace_back(atom);
    }
  }
  atoms.names.resize(expressions.size());
  if (expressions.empty()) return atoms;
  const PatternSetPtr set = compile_globs(expressions);
  TextSet<std::string_view> seen;
  std::vector<int> hits;
  for (const Module& module : graph.modules) {
    const std::string_view name = leaf_of(graph, module.path);
    if (!seen.insert(name).second) continue;
    find_matches(*set, name, hits);
    for (const int hit : hits) atoms.names[static_cast<size_t>(hit)].push_back(name);
  }
  for (std::vector<std::string_view>& names : atoms.names) std::sort(names.begin(), names.end());
  return atoms;
}

// Reports a parameter that two rules distribute with different styles. Torch raises ValueError: "Cannot distribute a
// DTensor with placements ... to a different placements".
void check_distributed(TorchWalk& walk, RuleId id, RuleId earlier, const Module& module, const Param& param) {
  const PlanRule &rule = walk.plan.rules[id], &first = walk.plan.rules[earlier];
  if (rule.style == nullptr || first.style == nullptr || rule.style == first.style || walk.distributed_by.empty())
    return;
  Diagnostic* d = report(walk.diagnostics, Code::TwoStylesOnModule, rule.key_span, fmt::format("{}/{}", earlier, id));
  if (d == nullptr) return;
  name_subject(*d, walk.graph, param);
  d->message = fmt::format("`{}` shards `{}` of module `{}`, which another rule already shards", rule.key, param.name,
                           module.path);
  d->counted = "module";
  d->fails = FirstFailure::Apply;
  d->notes.push_back({fmt::format("`{}` applies {} to all modules below the Linear that it names", first.key,
                                  rule_value_text(first, walk.plan.mesh)),
                      first.key_span});
  d->help = "remove one of the two rules";
}

void take_params(TorchWalk& walk, RuleId id, const Module& module) {
  for (ParamId param = module.first_param; param < module.first_param + module.param_count; ++param) {
    ParamMatch& match = walk.table.params[param];
    const RuleId earlier = match.rule;
    ++walk.table.rules[id].parameters;
    ++walk.table.rules[id].governed;
    match = {.rule = id, .by_module = true};
    if (earlier != kNoRule && earlier != id) check_distributed(walk, id, earlier, module, walk.graph.params[param]);
  }
}

void take_params_below(TorchWalk& walk, RuleId id, ModuleId module) {
  take_params(walk, id, walk.graph.modules[module]);
  for (const ModuleId child : walk.children[module]) take_params_below(walk, id, child);
}

// Applies a rule's style to a module. A second style that distributes the same module is reported, because torch raises
// RuntimeError. The prepare_* styles only add hooks to its boundaries.
void apply_style(TorchWalk& walk, RuleId id, ModuleId module_id) {
  const PlanRule& rule = walk.plan.rules[id];
  const Module& module = walk.graph.modules[module_id];
  ++walk.table.rules[id].modules;
  walk.table.rules[id].addressed = true;
  walk.table.boundaries.push_back({module_id, id});
  if (rule.style != nullptr && rule.style->once_per_module) {
    const RuleId earlier = walk.distributed_by[module_id];
    if (earlier != kNoRule) {
      Diagnostic* d =
          report(walk.diagnostics, Code::TwoStylesOnModule, rule.key_span, fmt::format("{}/{}", earlier, id));
      if (d == nullptr) return;
      name_subject(*d, module);
      d->message = fmt::format("`{}` sets a second style for module `{}`", rule.key, module.path);
      d->counted = "module";
      d->fails = FirstFailure::Apply;
      d->notes.push_back({fmt::format("`{}` already sets {}", walk.plan.rules[earlier].key,
                                      rule_value_text(walk.plan.rules[earlier], walk.plan.mesh)),
                          walk.plan.rules[earlier].key_span});
      d->notes.push_back({"torch raises \"distribute_module should only be called once on a module\"", {}});
      d->help = "make the keys mutually exclusive";
      return;
    }
    walk.distributed_by[module_id] = id;
  }
  if (rule.style != nullptr && !rule.style->touches_parameters) return;
  take_params(walk, id, module);
  // rowwise visits all modules below a Linear and shards the weight of each (style.py, _partition_linear_fn).
  if (rule.style == nullptr || rule.style->shard_dim != kDimIn || module.kind != ModuleKind::Linear) return;
  for (const ModuleId child : walk.children[module_id]) take_params_below(walk, id, child);
}

// Returns the child of a module by its name; kNone if there is none.
ModuleId child_of(const ModelGraph& graph, ModuleId module, std::string_view name) {
  const char mark = separator(graph.framework);
  if (name.empty() || name.find(mark) != std::string_view::npos) return kNone;
  std::string path(graph.modules[module].path);
  if (!path.empty()) path += mark;
  return find_module(graph, path += name);
}

// Returns the children whose names match a glob part, in file order. Iterates over the matched names or the children,
// whichever are fewer.
std::vector<ModuleId> matching_children(const TorchWalk& walk, ModuleId module, std::string_view atom) {
  const std::vector<std::string_view>& names = walk.atoms.names[walk.atoms.index.at(atom)];
  std::vector<ModuleId> matching;
  if (names.size() < walk.children[module].size()) {
    for (const std::string_view name : names) {
      if (const ModuleId child = child_of(walk.graph, module, name); child != kNone) matching.push_back(child);
    }
    std::sort(matching.begin(), matching.end());
    return matching;
  }
  for (const ModuleId child : walk.children[module]) {
    if (std::binary_search(names.begin(), names.end(), leaf_of(walk.graph, walk.graph.modules[child].path)))
      matching.push_back(child);
  }
  return matching;
}

// Applies a rule to the modules that a key matches. Matches the first part against the names of the children, and the
// rest recursively below each match. An empty rest is the module itself, so "a." means "a". This is parallelize_module:
// fnmatch of the first token with every name of named_children(), then the same with the rest.
void walk_key(TorchWalk& walk, RuleId id, ModuleId module, std::string_view key) {
  if (key.empty()) return apply_style(walk, id, module);
  const size_t dot = key.find('.');
  const std::string_view name = key.substr(0, dot), rest = dot == std::string_view::npos ? "" : key.substr(dot + 1);
  if (!is_glob(name)) {
    const ModuleId child = child_of(walk.graph, module, name);
    if (child != kNone) walk_key(walk, id, child, rest);
    return;
  }
  for (const ModuleId child : matching_children(walk, module, name)) walk_key(walk, id, child, rest);
}

// Applies rules in plan order, like torch's loop over its dict. If two rules are allowed on a module, the later one
// applies to its parameters.
void match_torch(const TpPlan& plan, const ModelGraph& graph, MatchTable& table, Diagnostics& diagnostics, KeyHits*) {
  TorchWalk walk{.plan = plan,
                 .graph = graph,
                 .table = table,
                 .diagnostics = diagnostics,
                 .children = {},
                 .distributed_by = {},
                 .atoms = match_atoms(plan, graph)};
  walk.children.resize(graph.modules.size());
  walk.distributed_by.assign(graph.modules.size(), kNoRule);
  for (ModuleId id = 0; id < graph.modules.size(); ++id) {
    if (const ModuleId parent = parent_of(graph, id); parent != kNone) walk.children[parent].push_back(id);
  }
  const ModuleId root = find_module(graph, "");
  const RuleScopes scopes = rule_scopes(plan, graph, diagnostics);
  for (const RuleId rule : scopes.list[0].rules) {
    if (root != kNone) walk_key(walk, rule, root, plan.rules[rule].key);
  }
  for (const RuleScope& scope : std::span(scopes.list).subspan(1)) {
    for (const RuleId rule : scope.rules) {
      for (const ModuleId id : scope.modules) walk_key(walk, rule, id, plan.rules[rule].key);
    }
  }
}

// ---- sharded dims ----

bool supports_torch_module(const InferenceInput& in, const ParamMatch& match, const Module& module) {
  const StyleRow& style = *in.plan.rules[match.rule].style;
  if (style.modules != StyleModules::LinearOrEmbedding || is_torch_linear_or_embedding(in.graph, module)) return true;
  report_unsupported(
      in, match, module,
      fmt::format("{} supports only Linear and Embedding, but `{}` is {}", style.name, module.path,
                  type_of(in.graph, module)),
      module.kind == ModuleKind::Norm
          ? "use sequence_parallel, or remove the rule"
          : "name the Linear modules below it; if it is a subclass, write `\"kind\": \"linear\"` in the model");
  return false;
}

// Returns the dim that torch 2.13 shards (style.py). colwise shards every parameter of a Linear along dim 0 and of an
// Embedding along dim 1. rowwise shards the `weight` of a Linear along dim 1 and every parameter of an Embedding along
// dim 0.
StyleDim shard_as_torch(const InferenceInput& in, const ParamMatch& match, const Module& module, const Param& param) {
  const StyleRow& style = *in.plan.rules[match.rule].style;
  const bool colwise = style.shard_dim == kDimOut, linear = module.kind == ModuleKind::Linear;
  if (linear && !colwise && param.name != "weight") return {};
  const size_t dim = linear == colwise ? 0 : 1;
  if (dim < param.ndim) return {StyleDimKind::Dim, dim};
  report_unsupported(in, match, module,
                     fmt::format("{} shards dim {} of `{}`, but its shape is {}", style.name, dim,
                                 path_of(in.graph, param), shape_text(shape_of(in.graph, param))),
                     "remove the rule: torch raises an error here");
  return {StyleDimKind::Error};
}

// Returns the dim that a style shards: by torch's class if the module has one, else by dim name.
StyleDim shard_torch(const InferenceInput& in, const ParamMatch& match, const Module& module, const Param& param) {
  const bool by_class = in.graph.framework == Framework::Torch && is_torch_linear_or_embedding(in.graph, module);
  return by_class ? shard_as_torch(in, match, module, param) : shard_by_name(in, match, module, param);
}

// ---- modules that torch rejects ----

// The first module below another in the model's order, and the first one that owns parameters; kNone if there is none.
struct FirstBelow {
  ModuleId any = kNone, owner = kNone;
};

std::vector<FirstBelow> first_below(const ModelGraph& graph) {
  std::vector<FirstBelow> firsts(graph.modules.size());
  for (ModuleId id = 0; id < graph.modules.size(); ++id) {
    const bool owns = graph.modules[id].param_count != 0;
    for (ModuleId at = parent_of(graph, id); at != kNone; at = parent_of(graph, at)) {
      if (firsts[at].any != kNone && (!owns || firsts[at].owner != kNone)) break;  // all ancestors have both too
      if (firsts[at].any == kNone) firsts[at].any = id;
      if (owns && firsts[at].owner == kNone) firsts[at].owner = id;
    }
  }
  return firsts;
}

// Returns the first module below `above` without a weight of two or more dims; kNone if all have one. `first` is the
// first module below `above`.
ModuleId first_without_weight(const ModelGraph& graph, ModuleId first, const Module& above) {
  for (ModuleId id = first; id < graph.modules.size(); ++id) {
    const Module& module = graph.modules[id];
    if (module.path == above.path || !is_below(graph, module.path, above.path)) continue;
    const auto params = params_of(graph, module);
    const bool has_weight =
        std::any_of(params.begin(), params.end(), [](const Param& p) { return p.name == "weight" && p.ndim > 1; });
    if (!has_weight) return id;
  }
  return kNone;
}

// Reports modules that torch rejects: containers under a style for linear layers, and modules whose submodules own
// parameters. Torch would register those parameters under names with dots, which raises an error.
void check_torch_modules(const InferenceInput& in, const MatchTable& matches, const ShardingTable&) {
  const std::vector<FirstBelow> firsts = first_below(in.graph);
  for (const BoundaryMatch& match : matches.boundaries) {
    const StyleRow* style = in.plan.rules[match.rule].style;
    const Module& module = in.graph.modules[match.module];
    if (style == nullptr || !check_boundary_module(in, matches, match) || !style->once_per_module) continue;
    const bool linear = style->modules == StyleModules::LinearOrEmbedding;
    // rowwise shards the `weight` of every module below a Linear; other styles register all parameters by name.
    const bool replicates_input = linear && style->shard_dim == kDimIn && module.kind == ModuleKind::Linear;
    if (linear && !is_torch_linear_or_embedding(in.graph, module)) continue;
    const ModuleId below = replicates_input ? first_without_weight(in.graph, firsts[match.module].any, module)
                                            : firsts[match.module].owner;
    if (below == kNone) continue;
    const std::string_view path = in.graph.modules[below].path;
    if (linear) {
      report_unsupported(
          in, {.rule = match.rule, .by_module = true}, module,
          fmt::format("{} supports a Linear or Embedding without submodules, but `{}` contains `{}`", style->name,
                      module.path, path),
          replicates_input
              ? "remove the rule: torch shards the weight of every submodule and raises an error if one has none"
              : "remove the rule: torch raises an error here");
    } else {
      report_unsupported(in, {.rule = match.rule, .by_module = true}, module,
                         fmt::format("{} supports only modules that own their parameters, but `{}` has them in `{}`",
                                     style->name, module.path, path),
                         "name the norms themselves; torch raises KeyError here");
    }
  }
}

}  // namespace

constexpr DialectRow kTorchDialect = {.name = "torch",
                                      .styles = kTorchStyles,
                                      .runtime = PlanRuntime::Torch,
                                      .targets = KeyTargets::Modules,
                                      .dead_rule = Code::UnmatchedShippedRule,  // torch 2.13 warns and goes on
                                      .follows_framework = true,
                                      .distributes_modules_once = true,
                                      .takes_ids_for_shards = true,
                                      .replicate_style = "",
                                      .norm_of_heads = "sequence_parallel",
                                      .match = match_torch,
                                      .supports_module = supports_torch_module,
                                      .dim_of_style = shard_torch,
                                      .check_modules = check_torch_modules};

}  // namespace tpplan
