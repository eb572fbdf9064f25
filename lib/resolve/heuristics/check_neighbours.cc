#include "resolve/heuristics/check_neighbours.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "model/module_kinds.h"
#include "model/name_subject.h"
#include "resolve/heuristics/check_pairs.h"
#include "resolve/heuristics/check_siblings.h"
#include "resolve/heuristics/neighbours.h"
#include "resolve/infer/sharding_table.h"

namespace tpplan {
namespace {

// True if a rule redistributes the output of the module or of an ancestor within its repeated block.
bool is_looked_after(const Neighbours& n, ModuleId id) {
  for (; id != kNone; id = parent_of(n.graph, id)) {
    if (n.redistributes[id]) return true;
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
    if (style == nullptr || style->shard_dim.empty() || n.graph.params[param].ndim != 3) continue;
    Diagnostic* d = report(n.diagnostics, Code::ExpertsNotReduced, n.plan.rules[rule].value_span, "experts");
    if (d == nullptr) return;
    name_subject(*d, n.graph, n.graph.params[param]);
    d->counted = "module";
    d->message = fmt::format("the experts `{}` are sharded, but their partial outputs are never reduced", module.path);
    d->notes.push_back({"the output of each rank is a partial sum", span_of(n.graph, module)});
    d->help = fmt::format("add a rule for the module of the experts: {}",
                          style->shard_dim == kDimExpert ? "ep_dispatch_experts" : "moe_tp_experts");
    return;
  }
}

// True for modules inside an attention. Embeddings there are sharded by heads, like their siblings.
bool is_inside_attention(const ModelGraph& graph, ModuleId id) {
  for (ModuleId at = parent_of(graph, id); at != kNone; at = parent_of(graph, at)) {
    if (type_of(graph, graph.modules[at]).find("Attention") != std::string_view::npos) return true;
    if (is_repeated_block(graph, at)) return false;
  }
  return false;
}

void check_embedding(const Neighbours& n, ModuleId id) {
  if (n.rules[id] == kNoRule || !stays_sharded(n.plan.rules[n.rules[id]]) || is_inside_attention(n.graph, id) ||
      is_looked_after(n, parent_of(n.graph, id)))
    return;
  const PlanRule& rule = n.plan.rules[n.rules[id]];
  Diagnostic* d = report(n.diagnostics, Code::EmbeddingOutputSharded, rule.value_span, fmt::format("{}", n.rules[id]));
  if (d == nullptr) return;
  name_subject(*d, n.graph.modules[id]);
  d->counted = "module";
  d->message = fmt::format("the output of `{}` stays sharded: each rank has a shard of every embedding",
                           n.graph.modules[id].path);
  d->notes.push_back({"the layers after it expect replicated embeddings", span_of(n.graph, n.graph.modules[id])});
  d->help = replicate_help(n.plan, "embedding_colwise", "output_layouts");
}

void check_bias(const Neighbours& n, ModuleId id) {
  const Module& module = n.graph.modules[id];
  if (module.param_count < 2) return;
  ParamId weight = kNone, bias = kNone;
  for (ParamId param = module.first_param; param < module.first_param + module.param_count; ++param) {
    if (n.graph.params[param].name == "bias") bias = param;
    if (find_dim(dims_of(n.graph, module, n.graph.params[param]), kDimIn) >= 0) weight = param;
  }
  if (weight == kNone || bias == kNone || n.graph.params[bias].ndim != 1) return;
  const int out = find_dim(dims_of(n.graph, module, n.graph.params[weight]), kDimOut);
  const RuleId rule = n.shardings.params[weight].rule;
  if (out < 0 || rule == kNoRule || n.rules[id] != kNoRule) return;  // a style of the module shards both
  // FSDP gathers weight and bias before use, so its axis does not matter here.
  const AxisId fsdp = n.plan.fsdp ? n.plan.fsdp->axis : kNoAxis;
  const auto axes_of = [&](ParamId param, size_t dim) {
    DimAxes axes = sharding_of(n.shardings, param).spec[dim];
    std::erase(axes, fsdp);
    return axes;
  };
  if (axes_of(weight, static_cast<size_t>(out)) == axes_of(bias, 0)) return;
  Diagnostic* d =
      report(n.diagnostics, Code::BiasShardedDifferently, n.plan.rules[rule].key_span, fmt::format("{}", rule));
  if (d == nullptr) return;
  name_subject(*d, n.graph, n.graph.params[bias]);
  d->counted = "module";
  d->message = fmt::format("the bias of `{}` and the outputs of its weight are sharded differently", module.path);
  d->notes.push_back(
      {"the bias entries of a rank do not belong to its outputs", span_of(n.graph, n.graph.params[bias])});
  d->help = "name the module instead of its weight, or shard the bias in the same way";
}

bool shards_sequence(const PlanRule& rule) {
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
  if (std::any_of(n.plan.rules.begin(), n.plan.rules.end(), shards_sequence)) return;
  for (const BoundaryMatch& match : n.matches.boundaries) {
    const PlanRule& rule = n.plan.rules[match.rule];
    if (rule.style == nullptr || rule.style->name != "sequence_parallel") continue;
    Diagnostic* d = report(n.diagnostics, Code::SequenceNotSharded, rule.value_span, "sequence");
    if (d == nullptr) continue;
    name_subject(*d, n.graph.modules[match.module]);
    d->counted = "module";
    d->message = fmt::format("`{}` treats its input as a sequence shard, but no rule of this plan shards the sequence",
                             n.graph.modules[match.module].path);
    d->notes.push_back({"its input is replicated: the reduced gradients are too large by the number of ranks",
                        span_of(n.graph, n.graph.modules[match.module])});
    d->help = "write `output_layouts: Shard(1)` for the layers before it, or remove this rule";
  }
}

Neighbours look_around(const HeuristicInput& in) {
  Neighbours n{in.plan, in.graph, in.matches, in.shardings, in.diagnostics, {}, {}};
  n.rules.assign(in.graph.modules.size(), kNoRule);
  n.redistributes.assign(in.graph.modules.size(), false);
  for (const BoundaryMatch& match : in.matches.boundaries) {
    const StyleRow* style = in.plan.rules[match.rule].style;
    if (style == nullptr) continue;
    if (!style->shard_dim.empty())
      n.rules[match.module] = match.rule;
    else if ((style->output.used && style->name != "sequence_parallel") || style->name == "ep_dispatch_experts")
      n.redistributes[match.module] = true;
  }
  return n;
}

}  // namespace

void check_neighbours(const HeuristicInput& in) {
  const Neighbours n = look_around(in);
  check_pairs(n);
  check_sequence(n);
  check_siblings(n);
  for (ModuleId id = 0; id < in.graph.modules.size(); ++id) {
    const Module& module = in.graph.modules[id];
    if (module.kind == ModuleKind::Linear) check_bias(n, id);
    if (module.kind == ModuleKind::Experts) check_experts(n, id);
    if (module.kind == ModuleKind::Embedding) check_embedding(n, id);
  }
}

}  // namespace tpplan
