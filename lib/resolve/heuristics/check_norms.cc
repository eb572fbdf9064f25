#include "resolve/heuristics/check_norms.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "model/attention_names.h"
#include "model/module_kinds.h"
#include "model/name_subject.h"

namespace tpplan {
namespace {

bool is_query_key_norm(std::string_view leaf) {
  static constexpr std::string_view names[] = {"q_norm",      "k_norm",     "q_layernorm",
                                               "k_layernorm", "query_norm", "key_norm"};
  return std::find(std::begin(names), std::end(names), leaf) != std::end(names);
}

// True if the rule replicates the outputs of its modules, independent of the sharding of parameters.
bool outputs_replicated(const PlanRule& rule) {
  if (rule.style == nullptr || !rule.style->output.used) return false;
  const auto& written = rule.options.output_layouts;
  const Layout layout = written && !written->empty() ? written->front() : Layout(rule.style->output.to);
  return layout && layout->kind == PlacementKind::Replicate;
}

// True if the output of the module is sharded along its `out` dim.
bool is_sharded_over_out(const TpPlan& plan, const ModelGraph& graph, const ShardingTable& table,
                         const Module& module) {
  for (ParamId param = module.first_param; param < module.first_param + module.param_count; ++param) {
    const int dim = find_dim(dims_of(graph, module, graph.params[param]), kDimOut);
    const RuleId rule = table.params[param].rule;
    if (dim < 0 || rule == kNoRule || plan.rules[rule].axis == kNoAxis || outputs_replicated(plan.rules[rule]))
      continue;
    const DimAxes& axes = sharding_of(table, param).spec[static_cast<size_t>(dim)];
    if (std::find(axes.begin(), axes.end(), plan.rules[rule].axis) != axes.end()) return true;
  }
  return false;
}

// True if a query or key projection next to the norm has a sharded output, so that each rank's norm sees only some of
// the heads.
bool follows_sharded_projection(const TpPlan& plan, const ModelGraph& graph, const ShardingTable& table,
                                ModuleId parent) {
  return std::ranges::any_of(attention_names(), [&](const AttentionName& row) {
    if (row.role != HeadRole::Query && row.role != HeadRole::Key) return false;
    std::string path(graph.modules[parent].path);
    if (!path.empty()) path += separator(graph.framework);
    path += row.leaf;
    const ModuleId id = find_module(graph, path);
    return id != kNone && is_sharded_over_out(plan, graph, table, graph.modules[id]);
  });
}

void report_unsummed(const HeuristicInput& in, ModuleId norm, bool sequence) {
  const TpPlan& plan = in.plan;
  const Module& module = in.graph.modules[norm];
  Diagnostic* d =
      report(in.diagnostics, Code::NormGradientNotReduced, plan.rules_span, sequence ? "sequence" : "heads");
  if (d == nullptr) return;
  d->counted = "norm";
  name_subject(*d, module);
  d->message = sequence
                   ? fmt::format("`{}` has no rule, but norms next to it are sequence_parallel", module.path)
                   : fmt::format("`{}` has no rule, but its input has only the local heads of a colwise projection",
                                 module.path);
  d->notes.push_back({"each rank has a partial gradient that is never reduced: the replicas diverge without an error",
                      span_of(in.graph, module)});
  const std::string_view style = sequence ? plan.dialect->sequence_norm_style : plan.dialect->norm_of_heads;
  d->help = fmt::format("use {} for it{}", style, sequence && style == kSequenceParallel ? " too" : "");
}

}  // namespace

// `holds_sequence` marks the ancestors of sequence_parallel modules; a norm whose parent is marked is next to one.
// Marking stops at a marked ancestor, so the total time is linear in modules.
void check_norms(const HeuristicInput& in) {
  const TpPlan& plan = in.plan;
  const ModelGraph& graph = in.graph;
  const ShardingTable& table = in.shardings;
  std::vector<bool> holds_sequence(graph.modules.size());
  bool any_sequence = false;
  for (const BoundaryMatch& match : in.matches.boundaries) {
    const StyleRow* style = plan.rules[match.rule].style;
    if (style == nullptr || style->name != kSequenceParallel) continue;
    any_sequence = true;
    for (ModuleId at = parent_of(graph, match.module); at != kNone && !holds_sequence[at]; at = parent_of(graph, at))
      holds_sequence[at] = true;
  }
  for (ModuleId id = 0; id < graph.modules.size(); ++id) {
    const Module& module = graph.modules[id];
    if (module.kind != ModuleKind::Norm || module.param_count == 0 || table.params[module.first_param].rule != kNoRule)
      continue;
    const bool query_key = is_query_key_norm(leaf_of(graph, module.path));
    if (!query_key && !any_sequence) continue;
    const ModuleId parent = parent_of(graph, id);
    if (parent == kNone) continue;
    if (query_key && follows_sharded_projection(plan, graph, table, parent))
      report_unsummed(in, id, false);
    else if (any_sequence && holds_sequence[parent])
      report_unsummed(in, id, true);
  }
}

}  // namespace tpplan
