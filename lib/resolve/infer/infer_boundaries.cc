#include "resolve/infer/infer_boundaries.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

#include "base/text.h"
#include "model/module_kinds.h"
#include "model/name_subject.h"
#include "sharding/check_sharding.h"

namespace tpplan {
namespace {

// Layouts of a value on the rule's axis, before the other mesh axes are added.
struct AxisBoundary {
  Layout from, to;
  GradientReduction sums = GradientReduction::None;  // not None: the module returns a partial gradient
  bool has_gradient = true;
  std::optional<bool> use_local;
};

std::optional<DType> sent_in(const std::optional<SentDtype>& option, std::span<const Step> steps) {
  return option && communicates(steps) ? std::optional(option->dtype) : std::nullopt;
}

// Returns the value's layout on all mesh axes: sharded along the batch on data axes, replicated on others. The rule's
// axis has `placement`, even if it is a data axis.
std::vector<Placement> over_mesh(const TpPlan& plan, AxisId axis, const Placement& placement) {
  std::vector<Placement> placements(plan.mesh.axes.size());
  if (plan.data) {
    for (const AxisId data : plan.data->axes) placements[data] = {.kind = PlacementKind::Shard, .dim = plan.data->dim};
  }
  placements[axis] = placement;
  return placements;
}

// Returns the boundary of a value on all axes. Token ids have no gradient and are sent in their dtype.
ValueBoundary make_value(const TpPlan& plan, const PlanRule& rule, const AxisBoundary& boundary) {
  const AxisId axis = rule.axis;
  ValueBoundary value;
  value.use_local = boundary.use_local;
  if (boundary.from) value.from = over_mesh(plan, axis, *boundary.from);
  if (boundary.to) value.to = over_mesh(plan, axis, *boundary.to);
  if (!value.from || !value.to) return value;
  // The plan reader rejects plans for which this fails.
  value.forward = steps_between(*value.from, *value.to, plan.mesh).value_or(std::vector<Step>{});
  if (!boundary.has_gradient) return value;
  value.forward_dtype = sent_in(rule.options.forward_dtype, value.forward);
  set_gradient(plan, rule, value, gradient_layouts(*value.from, *value.to, axis, boundary.sums));
  return value;
}

Layout first_layout(const std::optional<std::vector<Layout>>& layouts, const Placement& standard) {
  return layouts && !layouts->empty() ? layouts->front() : Layout(standard);
}

// Properties of a module, other than its rule, that affect its boundary.
struct Surroundings {
  bool embedding = false;
  bool fed_by_prepared =
      false;  // its input is a replicated DTensor from an enclosing prepared module, which reduces the gradient
  bool feeds_matmuls = false;  // a prepared module that contains column-sharded linears, which return partial gradients
};

// Adds the boundary of a style that defines the input and output of its module.
void add_style(const TpPlan& plan, const PlanRule& rule, const Surroundings& around, BoundaryLayout& boundary) {
  const bool embedding = around.embedding;
  const StyleRow& style = *rule.style;
  BoundaryRow input = style.input, output = style.output;
  if (embedding && style.input.used && style.options != 0) {
    // Token ids have no gradient and are replicated (torch 2.13, RowwiseParallel). Without `input_layouts`, torch
    // treats them as shards of the last dim; other dialects do not.
    input = {.used = true, .from = plan.dialect->takes_ids_for_shards ? input.from : Placement{}, .to = {}};
  }
  if (rule.options.sequence_dim) {
    const Placement sequence{.kind = PlacementKind::Shard, .dim = *rule.options.sequence_dim};
    input.from = input.to = output.from = output.to = sequence;
  }
  if (input.used) {
    // A DTensor keeps its placement; `input_layouts` applies to plain tensors only (torch 2.13, style.py:
    // _prepare_input_fn).
    const Layout comes =
        around.fed_by_prepared ? Layout(input.to) : first_layout(rule.options.input_layouts, input.from);
    boundary.inputs.push_back(make_value(plan, rule,
                                         {.from = comes,
                                          .to = input.to,
                                          .sums = !input.gradient_is_partial ? GradientReduction::None
                                                  : around.fed_by_prepared   ? GradientReduction::Partial
                                                                             : GradientReduction::Reduced,
                                          .has_gradient = !embedding,
                                          .use_local = {}}));
    if (style.second_input != 0) {
      ValueBoundary second = boundary.inputs.back();
      second.arg = style.second_input;
      boundary.inputs.push_back(std::move(second));
    }
  }
  if (output.used) {
    boundary.outputs.push_back(make_value(plan, rule,
                                          {.from = output.from,
                                           .to = first_layout(rule.options.output_layouts, output.to),
                                           .use_local = rule.options.use_local_output.value_or(style.use_local)}));
  }
}

// Returns the desired layout of a keyword argument; absent if the rule has none and the argument is not changed.
Layout wanted_of(const RuleOptions& options, std::string_view name) {
  const auto& wanted = *options.desired_input_kwarg_layouts;
  const auto found = std::find_if(wanted.begin(), wanted.end(), [name](const auto& k) { return k.first == name; });
  return found == wanted.end() ? Layout{} : found->second;
}

bool is_fully_replicated(const Layout& layout) { return layout && layout->kind == PlacementKind::Replicate; }

// Adds the boundary of a prepare_module_* rule, one value per layout. If a replicated DTensor input reaches
// column-sharded linears, its gradient is Partial. The gradient is reduced once, in the module that replicated the
// input: this one, or an enclosing prepared module. For a local tensor, torch assumes a replicated gradient
// (torch 2.13, style.py; measured with CommDebugMode).
void add_prepared(const TpPlan& plan, const PlanRule& rule, const Surroundings& around, BoundaryLayout& boundary) {
  const StyleRow& style = *rule.style;
  const RuleOptions& o = rule.options;
  const bool local_input =
      style.output.used ? o.use_local_input.value_or(false) : o.use_local_output.value_or(style.use_local);
  const auto input = [&](const Layout& from, const Layout& to) {
    const bool passes_on = is_fully_replicated(from) && around.fed_by_prepared;
    const bool is_partial = from && is_fully_replicated(to) && around.feeds_matmuls;
    return AxisBoundary{.from = from,
                        .to = to,
                        .sums = !is_partial ? GradientReduction::None
                                : passes_on ? GradientReduction::Partial
                                            : GradientReduction::Reduced,
                        .use_local = local_input};
  };
  for (size_t i = 0; o.input_layouts && i < o.input_layouts->size(); ++i) {
    ValueBoundary value = make_value(plan, rule, input((*o.input_layouts)[i], (*o.desired_input_layouts)[i]));
    value.arg = static_cast<int>(i);
    boundary.inputs.push_back(std::move(value));
  }
  for (size_t i = 0; o.input_kwarg_layouts && i < o.input_kwarg_layouts->size(); ++i) {
    const auto& [name, from] = (*o.input_kwarg_layouts)[i];
    ValueBoundary value = make_value(plan, rule, input(from, wanted_of(o, name)));
    value.kwarg = name;
    boundary.inputs.push_back(std::move(value));
  }
  const bool local_output = o.use_local_output.value_or(style.use_local);
  for (size_t i = 0; style.output.used && o.output_layouts && i < o.output_layouts->size(); ++i) {
    ValueBoundary value = make_value(
        plan, rule, {.from = (*o.output_layouts)[i], .to = (*o.desired_output_layouts)[i], .use_local = local_output});
    value.arg = static_cast<int>(i);
    boundary.outputs.push_back(std::move(value));
  }
}

void warn_uneven_output(const TpPlan& plan, const ModelGraph& graph, const Module& module,
                        const BoundaryLayout& boundary, Diagnostics& diagnostics) {
  const bool has_local_values = graph.framework == Framework::Torch && !plan.dialect->passes_global_sizes;
  if (plan.uneven == UnevenPolicy::Error || !has_local_values) return;
  const PlanRule& rule = plan.rules[boundary.rule];
  const bool local_shard = !boundary.outputs.empty() && boundary.outputs[0].use_local.value_or(false) &&
                           boundary.outputs[0].to && (*boundary.outputs[0].to)[rule.axis].kind == PlacementKind::Shard;
  if (!local_shard || rule.style->shard_dim != kDimOut) return;
  for (const Param& param : params_of(graph, module)) {
    const int dim = find_dim(dims_of(graph, module, param), kDimOut);
    const int64_t shards = plan.mesh.axes[rule.axis].size;
    if (dim < 0 || divides(shards, shape_of(graph, param)[static_cast<size_t>(dim)])) continue;
    Diagnostic* d = report(diagnostics, Code::UnevenLocalOutput, rule.value_span, fmt::format("{}", boundary.rule));
    if (d == nullptr) return;
    name_subject(*d, graph, param);
    d->message = fmt::format(
        "the output of `{}` has {} columns, is sharded unevenly over `{}` ({}) and is returned as a local tensor",
        module.path, shape_of(graph, param)[static_cast<size_t>(dim)], axis_name(plan.mesh, rule.axis), shards);
    d->counted = "module";
    d->notes.push_back(
        {"torch computes the global size from the local size of one rank and gets a wrong one", span_of(graph, param)});
    d->help = "write `use_local_output: false`, or pad the size";
    return;
  }
}

// Keywords of tensor arguments in the traced calls of each module, by path.
using GivenKeywords = std::map<std::string_view, std::set<std::string_view>>;

GivenKeywords keywords_given(const ModelGraph& graph) {
  const OpGraph& operations = graph.operations;
  GivenKeywords given;
  for (const GraphNode& node : operations.nodes) {
    if (node.kind != NodeKind::Enter) continue;
    std::set<std::string_view>& keywords = given[operations.strings[node.name]];
    for (uint32_t i = node.crossing_begin; i < node.crossing_end; ++i) {
      if (!operations.crossings[i].key.empty()) keywords.insert(operations.crossings[i].key);
    }
  }
  return given;
}

// Warns about keywords of a rule that no traced call passes: torch ignores them.
void warn_keywords_not_given(const PlanRule& rule, const Module& module, const GivenKeywords& given,
                             Diagnostics& diagnostics) {
  const auto calls = given.find(module.path);
  if (calls == given.end()) return;  // never called in the traced step
  const std::vector<std::string_view> known(calls->second.begin(), calls->second.end());
  for (const auto& [name, layout] : *rule.options.input_kwarg_layouts) {
    if (!layout || calls->second.contains(name)) continue;
    Diagnostic* d = report(diagnostics, Code::UnusedKeyword, rule.value_span, name);
    if (d == nullptr) continue;
    name_subject(*d, module);
    d->counted = "module";
    d->message = fmt::format("`input_kwarg_layouts` names `{}`, but no call of `{}` passes a tensor with that keyword",
                             name, module.path);
    d->notes.push_back({known.empty() ? std::string("it receives all tensors as positional arguments")
                                      : fmt::format("the traced step passes `{}`", fmt::join(known, "`, `")),
                        {}});
    const std::string_view nearest = nearest_name(name, known);
    d->help = !nearest.empty() ? fmt::format("did you mean `{}`?", nearest)
              : known.empty()  ? "write its layouts by position in `input_layouts`"
                               : "remove it, or name a keyword that is passed";
  }
}

// How a prepare_module_* rule affects the gradients of its inputs.
struct Handing {
  bool any = false;                // it names an input; a rule with only `null` placeholders changes nothing
  bool passes_replicated = false;  // it passes a replicated DTensor on, whose gradient may be partial
  bool was_replicated = false;     // the passed DTensor was replicated before, so its gradient is not reduced here
};

Handing handing_of(const PlanRule& rule) {
  Handing handing;
  if (rule.style == nullptr || rule.style->touches_parameters || !rule.style->input.used) return handing;
  const RuleOptions& o = rule.options;
  const bool local = (rule.style->output.used ? o.use_local_input : o.use_local_output).value_or(false);
  const auto add = [&](const Layout& from, const Layout& to) {
    handing.any = handing.any || from || to;
    handing.passes_replicated = handing.passes_replicated || (!local && is_fully_replicated(to));
    handing.was_replicated = handing.was_replicated || (!local && is_fully_replicated(to) && is_fully_replicated(from));
  };
  for (size_t i = 0; o.input_layouts && i < o.input_layouts->size(); ++i)
    add((*o.input_layouts)[i], (*o.desired_input_layouts)[i]);
  for (const auto& [name, from] : o.input_kwarg_layouts.value_or(std::vector<std::pair<std::string, Layout>>{})) {
    add(from, wanted_of(o, name));
  }
  return handing;
}

// Returns the surroundings of each boundary match. The nearest prepared module above a linear on the same axis feeds
// it, and the next one feeds that module, as long as they pass replicated DTensors on.
std::vector<Surroundings> look_around(const TpPlan& plan, const ModelGraph& graph, const MatchTable& matches) {
  std::vector<Surroundings> around(matches.boundaries.size());
  std::vector<Handing> handing(plan.rules.size());
  for (RuleId id = 0; id < plan.rules.size(); ++id) handing[id] = handing_of(plan.rules[id]);
  std::unordered_map<ModuleId, std::vector<size_t>> prepared;
  for (size_t i = 0; i < matches.boundaries.size(); ++i) {
    around[i].embedding = graph.modules[matches.boundaries[i].module].kind == ModuleKind::Embedding;
    if (handing[matches.boundaries[i].rule].any) prepared[matches.boundaries[i].module].push_back(i);
  }
  if (prepared.empty()) return around;
  const auto prepared_above = [&](ModuleId module, AxisId axis) {
    for (ModuleId at = parent_of(graph, module); at != kNone; at = parent_of(graph, at)) {
      const auto found = prepared.find(at);
      if (found == prepared.end()) continue;
      for (const size_t i : found->second) {
        if (plan.rules[matches.boundaries[i].rule].axis == axis) return i;
      }
    }
    return matches.boundaries.size();
  };
  for (size_t i = 0; i < matches.boundaries.size(); ++i) {
    const PlanRule& rule = plan.rules[matches.boundaries[i].rule];
    if (rule.style == nullptr || !rule.style->touches_parameters || !rule.style->input.gradient_is_partial) continue;
    for (size_t at = i;;) {
      const size_t above = prepared_above(matches.boundaries[at].module, rule.axis);
      if (above == matches.boundaries.size() || !handing[matches.boundaries[above].rule].passes_replicated) break;
      around[at].fed_by_prepared = around[above].feeds_matmuls = true;
      if (!handing[matches.boundaries[above].rule].was_replicated) break;
      at = above;
    }
  }
  return around;
}

// ---- printing ----

std::string placements_text(const std::optional<std::vector<Placement>>& placements) {
  return placements ? to_text(*placements) : "null";
}

void dump_values(std::string& out, std::string_view what, const std::vector<ValueBoundary>& values, const Mesh& mesh) {
  const auto steps = [&](std::string_view direction, const std::vector<Step>& list) {
    for (const Step& step : list) out += fmt::format("; {} {}", direction, to_text(step.collective, mesh));
  };
  for (const ValueBoundary& value : values) {
    out += fmt::format("  {} {}: {} -> {}", what, value.kwarg.empty() ? std::to_string(value.arg) : value.kwarg,
                       placements_text(value.from), placements_text(value.to));
    steps("forward", value.forward);
    steps("backward", value.backward);
    out += sent_dtypes_text(value.forward_dtype, value.backward_dtype, "; ");
    if (value.use_local) out += *value.use_local ? "; local" : "; DTensor";
    out += '\n';
  }
}

// Warns about a `forward_dtype` or `backward_dtype` without effect: no module of its rule has a collective in that
// direction.
void warn_without_collectives(const TpPlan& plan, const BoundaryTable& table, Diagnostics& diagnostics) {
  std::vector<bool> has_boundary(plan.rules.size());
  const auto sends = [&](RuleId rule, std::optional<DType> ValueBoundary::*dtype) {
    return std::ranges::any_of(table.layouts, [&](const BoundaryLayout& layout) {
      const auto is_sent = [dtype](const ValueBoundary& value) { return (value.*dtype).has_value(); };
      return layout.rule == rule &&
             (std::ranges::any_of(layout.inputs, is_sent) || std::ranges::any_of(layout.outputs, is_sent));
    });
  };
  for (const BoundaryLayout& layout : table.layouts) has_boundary[layout.rule] = true;
  for (RuleId id = 0; id < plan.rules.size(); ++id) {
    const RuleOptions& o = plan.rules[id].options;
    const std::tuple<StyleOption, const std::optional<SentDtype>&, std::optional<DType> ValueBoundary::*> options[] = {
        {kForwardDtype, o.forward_dtype, &ValueBoundary::forward_dtype},
        {kBackwardDtype, o.backward_dtype, &ValueBoundary::backward_dtype}};
    for (const auto& [option, written, member] : options) {
      if (!written || !has_boundary[id] || sends(id, member)) continue;
      const bool forward = option == kForwardDtype;
      Diagnostic* d = report(diagnostics, Code::SettingWithoutEffect, written->span, "");
      if (d == nullptr) continue;
      d->message = fmt::format("`{}` has no effect: {} sends {} between ranks", option_name(option),
                               plan.rules[id].style->name, forward ? "no forward values" : "no gradients");
      d->help = fmt::format("remove it, or write layouts whose conversion sends {}", forward ? "values" : "gradients");
    }
  }
}

// Reports TP5023 if no input of the model has the batch dim of `data`.
void check_batch_dim(const DataSharding& data, const OpGraph& operations, Diagnostics& diagnostics) {
  size_t most = 0;
  std::vector<std::string> inputs;
  for (const GraphLeaf& leaf : operations.leaves) {
    if (leaf.kind != LeafKind::Input) continue;
    const auto shape = shape_of(operations, leaf.value);
    most = std::max(most, shape.size());
    inputs.push_back(fmt::format("`{}` [{}]", operations.strings[leaf.path], fmt::join(shape, ", ")));
  }
  if (inputs.empty() || static_cast<size_t>(data.dim) < most) return;
  Diagnostic* d = report(diagnostics, Code::NoBatchDim, data.dim_span, "");
  if (d == nullptr) return;
  d->message = fmt::format("`data` shards the batch along dim {}, but no input of the model has that dim", data.dim);
  d->notes.push_back({fmt::format("the inputs of the traced step are {}", fmt::join(inputs, ", ")), {}});
  d->help = most == 0 ? "remove `data`: no input has a batch dim" : "write `dim: 0` if the batch is the first dim";
}

}  // namespace

void set_gradient(const TpPlan& plan, const PlanRule& rule, ValueBoundary& value, const GradientLayouts& gradient) {
  value.gradient = gradient;
  value.backward = *steps_between(gradient.from, gradient.to, plan.mesh);
  value.backward_dtype = sent_in(rule.options.backward_dtype, value.backward);
}

BoundaryTable infer_boundaries(const TpPlan& plan, const ModelGraph& graph, const MatchTable& matches,
                               Diagnostics& diagnostics) {
  BoundaryTable table;
  if (plan.data && graph.operations.is_there) check_batch_dim(*plan.data, graph.operations, diagnostics);
  table.modules.reserve(matches.boundaries.size());
  // Index into BoundaryTable::layouts, by rule and surroundings.
  std::vector<std::array<uint32_t, 8>> known(plan.rules.size());
  for (auto& layouts : known) layouts.fill(kNone);
  const std::vector<Surroundings> around = look_around(plan, graph, matches);
  const bool needs_keywords = graph.operations.is_there && std::ranges::any_of(plan.rules, [](const PlanRule& rule) {
                                return rule.options.input_kwarg_layouts && !rule.options.input_kwarg_layouts->empty();
                              });
  const GivenKeywords given = needs_keywords ? keywords_given(graph) : GivenKeywords{};
  for (size_t i = 0; i < matches.boundaries.size(); ++i) {
    const BoundaryMatch& match = matches.boundaries[i];
    const PlanRule& rule = plan.rules[match.rule];
    if (rule.style == nullptr) continue;
    const Module& module = graph.modules[match.module];
    uint32_t& layout =
        known[match.rule][around[i].embedding + 2u * around[i].fed_by_prepared + 4u * around[i].feeds_matmuls];
    if (layout == kNone) {
      layout = static_cast<uint32_t>(table.layouts.size());
      BoundaryLayout& fresh = table.layouts.emplace_back();
      fresh.rule = match.rule;
      if (rule.style->touches_parameters)
        add_style(plan, rule, around[i], fresh);
      else
        add_prepared(plan, rule, around[i], fresh);
    }
    warn_uneven_output(plan, graph, module, table.layouts[layout], diagnostics);
    if (rule.options.input_kwarg_layouts) warn_keywords_not_given(rule, module, given, diagnostics);
    table.modules.push_back({match.module, layout});
  }
  warn_without_collectives(plan, table, diagnostics);
  return table;
}

std::string dump(const BoundaryTable& table, const TpPlan& plan, const ModelGraph& graph) {
  std::string out;
  for (const ModuleBoundary& boundary : table.modules) {
    const BoundaryLayout& layout = table.layouts[boundary.layout];
    out += fmt::format("{}: {}\n", graph.modules[boundary.module].path, plan.rules[layout.rule].style->name);
    dump_values(out, "input", layout.inputs, plan.mesh);
    dump_values(out, "output", layout.outputs, plan.mesh);
  }
  return out;
}

}  // namespace tpplan
