#include "infer/check_coverage.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/text.h"
#include "infer/axis_use.h"
#include "match/decide_dims.h"
#include "model/attention_names.h"
#include "model/module_kinds.h"
#include "sharding/tensor_size.h"

namespace tpplan {
namespace {

void report_unmatched(const TpPlan& plan, const ModelGraph& graph, const ShardingTable& table,
                      Diagnostics& diagnostics) {
  const bool by_names = plan.dialect->targets == KeyTargets::Dims;
  uint64_t unnamed = 0;  // where rules go by names: those without
  uint64_t count = 0, bytes = 0, all_bytes = 0, largest_bytes = 0;
  ParamId largest = 0;
  for (ParamId id = 0; id < table.params.size(); ++id) {
    const uint64_t elements = elements_of(shape_of(graph, graph.params[id]));
    const uint64_t size = byte_size(graph.params[id].dtype, elements);
    all_bytes += size;
    if (table.params[id].rule != kNoRule || elements <= kLargeParameter ||
        !is_whole(sharding_of(table, id).spec, plan.mesh))
      continue;
    ++count;
    unnamed += by_names && logical_axes_of(graph, graph.params[id]).empty();
    bytes += size;
    if (size > largest_bytes) {
      largest_bytes = size;
      largest = id;
    }
  }
  if (count == 0 || device_count(plan.mesh) == 1) return;
  Diagnostic* d = report(diagnostics, Code::TP4006, plan.rules_span);
  if (d == nullptr) return;
  const std::string shape = shape_text(shape_of(graph, graph.params[largest]));
  d->message = fmt::format("{} of more than {} elements {} whole on every rank: {}, {:.1f} % of the model",
                           counted(count, "parameter"), kLargeParameter,
                           count == 1 ? "matches no rule and stays" : "match no rule and stay", human_bytes(bytes),
                           100.0 * static_cast<double>(bytes) / static_cast<double>(std::max<uint64_t>(all_bytes, 1)));
  d->notes.push_back({fmt::format("the largest is `{}` {}, {}", path_of(graph, graph.params[largest]), shape,
                                  human_bytes(largest_bytes)),
                      span_of(graph, graph.params[largest])});
  const std::string_view keep_whole = plan.dialect->keep_whole;
  if (unnamed > 0)
    d->notes.push_back({fmt::format("{} of them {} no `logical_axes` in the model, which rules go by", unnamed,
                                    unnamed == 1 ? "has" : "have"),
                        {}});
  d->help = keep_whole.empty() ? "add a rule for them, or suppress this with the reason"
                               : fmt::format("add a rule for them; `{}` says that it is meant", keep_whole);
}

void report_unused_axes(const TpPlan& plan, const MatchTable& matches, const ShardingTable& table,
                        Diagnostics& diagnostics) {
  const std::vector<bool> used = used_axes(plan, matches, table);
  for (size_t axis = 0; axis < used.size(); ++axis) {
    if (used[axis] || plan.mesh.axes[axis].size == 1) continue;
    const Span place = axis < plan.axis_spans.size() ? plan.axis_spans[axis] : Span{};
    Diagnostic& d = report_message(diagnostics, Code::TP4007, place,
                                   fmt::format("nothing uses mesh axis `{}` ({}): its ranks all hold the same",
                                               axis_name(plan.mesh, axis), plan.mesh.axes[axis].size));
    d.help = "shard something over it, name it in `data.axes`, or remove it";
  }
}

bool is_query_key_norm(std::string_view leaf) {
  static constexpr std::string_view names[] = {"q_norm",      "k_norm",     "q_layernorm",
                                               "k_layernorm", "query_norm", "key_norm"};
  return std::find(std::begin(names), std::end(names), leaf) != std::end(names);
}

// Whether the outputs of the rule's modules leave whole, whatever their parameters are cut over.
bool leaves_whole(const PlanRule& rule) {
  if (rule.style == nullptr || !rule.style->output.used) return false;
  const auto& written = rule.options.output_layouts;
  const Layout layout = written && !written->empty() ? written->front() : Layout(rule.style->output.to);
  return layout && layout->kind == PlacementKind::Replicate;
}

// Whether what the module gives is cut over `out`.
bool is_cut_over_out(const TpPlan& plan, const ModelGraph& graph, const ShardingTable& table, const Module& module) {
  for (ParamId param = module.first_param; param < module.first_param + module.param_count; ++param) {
    const int dim = find_dim(dims_of(graph, module, graph.params[param]), kDimOut);
    const RuleId rule = table.params[param].rule;
    if (dim < 0 || rule == kNoRule || plan.rules[rule].axis == kNoAxis || leaves_whole(plan.rules[rule])) continue;
    const DimAxes& axes = sharding_of(table, param).spec[static_cast<size_t>(dim)];
    if (std::find(axes.begin(), axes.end(), plan.rules[rule].axis) != axes.end()) return true;
  }
  return false;
}

// True when a projection of queries or keys beside the norm is cut over `out`, so that the norm sees a part of the
// heads.
bool beside_cut_projection(const TpPlan& plan, const ModelGraph& graph, const ShardingTable& table, ModuleId parent) {
  return std::ranges::any_of(attention_names(), [&](const AttentionName& row) {
    if (row.role != HeadRole::Query && row.role != HeadRole::Key) return false;
    std::string path(graph.modules[parent].path);
    if (!path.empty()) path += separator(graph.framework);
    path += row.leaf;
    const ModuleId id = find_module(graph, path);
    return id != kNone && is_cut_over_out(plan, graph, table, graph.modules[id]);
  });
}

void report_unsummed(const TpPlan& plan, const ModelGraph& graph, ModuleId norm, bool sequence,
                     Diagnostics& diagnostics) {
  const Module& module = graph.modules[norm];
  Diagnostic* d = report(diagnostics, Code::TP5019, plan.rules_span, sequence ? "sequence" : "heads");
  if (d == nullptr) return;
  d->counted = "norm";
  d->message = sequence
                   ? fmt::format("`{}` has no rule, and norms beside it are sequence_parallel", module.path)
                   : fmt::format("`{}` has no rule, and sees the heads of a column-sharded projection", module.path);
  d->notes.push_back(
      {"each rank has a part of its gradient, and nothing sums the parts: the copies drift apart without an error",
       span_of(graph, module)});
  const std::string_view style = sequence ? plan.dialect->norm_beside_sequence : plan.dialect->norm_of_heads;
  d->help = fmt::format("give it {}{}", style, sequence && style == kSequenceParallel ? " too" : "");
}

// `holds_sequence` marks what lies above a sequence_parallel module: a norm directly in such a module stands beside it.
// Marking stops at what is marked already, so that it costs no more than there are modules.
void report_unsummed_norms(const TpPlan& plan, const ModelGraph& graph, const MatchTable& matches,
                           const ShardingTable& table, Diagnostics& diagnostics) {
  std::vector<bool> holds_sequence(graph.modules.size());
  bool any_sequence = false;
  for (const BoundaryMatch& match : matches.boundaries) {
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
    if (query_key && beside_cut_projection(plan, graph, table, parent))
      report_unsummed(plan, graph, id, false, diagnostics);
    else if (any_sequence && holds_sequence[parent])
      report_unsummed(plan, graph, id, true, diagnostics);
  }
}

}  // namespace

void check_coverage(const TpPlan& plan, const ModelGraph& graph, const MatchTable& matches, const ShardingTable& table,
                    Diagnostics& diagnostics) {
  report_unmatched(plan, graph, table, diagnostics);
  report_unused_axes(plan, matches, table, diagnostics);
  report_unsummed_norms(plan, graph, matches, table, diagnostics);
}

}  // namespace tpplan
