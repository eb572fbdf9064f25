#include "infer/check_neighbours.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "infer/check_alike.h"
#include "infer/check_pairs.h"
#include "infer/neighbours.h"
#include "infer/sharding_table.h"
#include "model/module_kinds.h"

namespace tpplan {
namespace {

// True when a rule looks after what leaves the module or one around it, up to the block that it is in.
bool is_looked_after(const Neighbours& n, ModuleId id) {
  for (; id != kNone; id = parent_of(n.graph, id)) {
    if (n.closed[id]) return true;
    if (is_repeated_block(n.graph, id)) return false;
  }
  return false;
}

void check_experts(const Neighbours& n, ModuleId id) {
  const Module& module = n.graph.modules[id];
  if (is_looked_after(n, id)) return;
  for (ParamId param = module.first_param; param < module.first_param + module.param_count; ++param) {
    const RuleId rule = n.shardings.params[param].rule;
    const StyleRow* style = rule == kNoRule ? nullptr : n.plan.rules[rule].style;
    if (style == nullptr || style->cut_dim.empty() || n.graph.params[param].ndim != 3) continue;
    Diagnostic* d = report(n.diagnostics, Code::TP5153, n.plan.rules[rule].value_span, "experts");
    if (d == nullptr) return;
    d->counted = "module";
    d->message = fmt::format("the experts `{}` are cut, and nothing sums what the ranks make of them", module.path);
    d->notes.push_back({"each rank's output is a part of a sum", span_of(n.graph, module)});
    d->help = fmt::format("give the module of the experts {}",
                          style->cut_dim == kDimExpert ? "ep_dispatch_experts" : "moe_tp_experts");
    return;
  }
}

// A table of positions or heads inside an attention is cut by heads, as its neighbours are.
bool is_inside_attention(const ModelGraph& graph, ModuleId id) {
  for (ModuleId at = parent_of(graph, id); at != kNone; at = parent_of(graph, at)) {
    if (type_of(graph, graph.modules[at]).find("Attention") != std::string_view::npos) return true;
    if (is_repeated_block(graph, at)) return false;
  }
  return false;
}

void check_embedding(const Neighbours& n, ModuleId id) {
  if (n.rules[id] == kNoRule || !stays_cut(n.plan.rules[n.rules[id]]) || is_inside_attention(n.graph, id) ||
      is_looked_after(n, parent_of(n.graph, id)))
    return;
  const PlanRule& rule = n.plan.rules[n.rules[id]];
  Diagnostic* d = report(n.diagnostics, Code::TP5154, rule.value_span, fmt::format("{}", n.rules[id]));
  if (d == nullptr) return;
  d->counted = "module";
  d->message = fmt::format("each rank leaves `{}` with a piece of every embedding", n.graph.modules[id].path);
  d->notes.push_back({"the layers that follow take whole embeddings", span_of(n.graph, n.graph.modules[id])});
  d->help = make_whole(n.plan, "embedding_colwise", "output_layouts");
}

void check_bias(const Neighbours& n, ModuleId id) {
  // Elsewhere a bias is one array over all ranks, and right as it is.
  if (n.graph.framework != Framework::Torch) return;
  const Module& module = n.graph.modules[id];
  ParamId weight = kNone, bias = kNone;
  for (ParamId param = module.first_param; param < module.first_param + module.param_count; ++param) {
    if (n.graph.params[param].name == "bias") bias = param;
    if (find_dim(dims_of(n.graph, module, n.graph.params[param]), kDimIn) >= 0) weight = param;
  }
  if (weight == kNone || bias == kNone || n.graph.params[bias].ndim != 1) return;
  const int out = find_dim(dims_of(n.graph, module, n.graph.params[weight]), kDimOut);
  const RuleId rule = n.shardings.params[weight].rule;
  if (out < 0 || rule == kNoRule || n.rules[id] != kNoRule) return;  // a style for the module cuts both
  // FSDP puts weight and bias together before they are used: how its axis cuts them is no matter here.
  const AxisId fsdp = n.plan.fsdp ? n.plan.fsdp->axis : kNoAxis;
  const auto axes_of = [&](ParamId param, size_t dim) {
    DimAxes axes = sharding_of(n.shardings, param).spec[dim];
    std::erase(axes, fsdp);
    return axes;
  };
  if (axes_of(weight, static_cast<size_t>(out)) == axes_of(bias, 0)) return;
  Diagnostic* d = report(n.diagnostics, Code::TP5156, n.plan.rules[rule].key_span, fmt::format("{}", rule));
  if (d == nullptr) return;
  d->counted = "module";
  d->message = fmt::format("the bias of `{}` is not cut as the outputs of its weight are", module.path);
  d->notes.push_back({"a rank adds it to outputs that it does not belong to", span_of(n.graph, n.graph.params[bias])});
  d->help = "name the module instead of its weight, or give the bias the same cut";
}

bool cuts_sequence(const PlanRule& rule) {
  if (rule.style == nullptr || rule.style->name == "sequence_parallel") return false;
  const auto sequence = [](const std::optional<std::vector<Layout>>& layouts) {
    return layouts && std::any_of(layouts->begin(), layouts->end(), [](const Layout& layout) {
             return layout && layout->kind == PlacementKind::Shard && layout->dim >= 0;
           });
  };
  const auto named = [](const std::optional<KwargLayouts>& layouts) {
    return layouts && std::any_of(layouts->begin(), layouts->end(), [](const auto& entry) {
             return entry.second && entry.second->kind == PlacementKind::Shard && entry.second->dim >= 0;
           });
  };
  const RuleOptions& o = rule.options;
  return sequence(o.output_layouts) || sequence(o.desired_output_layouts) || sequence(o.desired_input_layouts) ||
         named(o.desired_input_kwarg_layouts);
}

void check_sequence(const Neighbours& n) {
  if (std::any_of(n.plan.rules.begin(), n.plan.rules.end(), cuts_sequence)) return;
  for (const BoundaryMatch& match : n.matches.boundaries) {
    const PlanRule& rule = n.plan.rules[match.rule];
    if (rule.style == nullptr || rule.style->name != "sequence_parallel") continue;
    Diagnostic* d = report(n.diagnostics, Code::TP5155, rule.value_span, "sequence");
    if (d == nullptr) continue;
    d->counted = "module";
    d->message =
        fmt::format("`{}` takes its input for a piece of the sequence, and nothing in this plan cuts the sequence",
                    n.graph.modules[match.module].path);
    d->notes.push_back({"what comes in is whole: gradients are summed as many times as there are ranks",
                        span_of(n.graph, n.graph.modules[match.module])});
    d->help = "let the layers before it leave Shard(1) (`output_layouts`), or leave this rule out";
  }
}

Neighbours look_around(const TpPlan& plan, const ModelGraph& graph, const MatchTable& matches,
                       const ShardingTable& shardings, Diagnostics& diagnostics) {
  Neighbours n{plan, graph, matches, shardings, diagnostics, {}, {}};
  n.rules.assign(graph.modules.size(), kNoRule);
  n.closed.assign(graph.modules.size(), false);
  for (const BoundaryMatch& match : matches.boundaries) {
    const StyleRow* style = plan.rules[match.rule].style;
    if (style == nullptr) continue;
    if (!style->cut_dim.empty())
      n.rules[match.module] = match.rule;
    else if ((style->output.used && style->name != "sequence_parallel") || style->name == "ep_dispatch_experts")
      n.closed[match.module] = true;
  }
  return n;
}

}  // namespace

void check_neighbours(const TpPlan& plan, const ModelGraph& graph, const MatchTable& matches,
                      const ShardingTable& shardings, Diagnostics& diagnostics) {
  const Neighbours n = look_around(plan, graph, matches, shardings, diagnostics);
  check_pairs(n);
  check_sequence(n);
  for (ModuleId id = 0; id < graph.modules.size(); ++id) {
    const Module& module = graph.modules[id];
    if (module.kind == ModuleKind::Linear) {
      check_bias(n, id);
      check_alike(n, id);
    }
    if (module.kind == ModuleKind::Experts) check_experts(n, id);
    if (module.kind == ModuleKind::Embedding) check_embedding(n, id);
  }
}

}  // namespace tpplan
