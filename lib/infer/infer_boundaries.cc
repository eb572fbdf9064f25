#include "infer/infer_boundaries.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

#include "base/text.h"
#include "model/module_kinds.h"
#include "sharding/check_sharding.h"

namespace tpplan {
namespace {

// Layouts of one value on the rule's own axis, before they are put into the mesh.
struct AxisBoundary {
  Layout from, to;
  GradientSums sums = GradientSums::None;  // where the module leaves a sum open in the gradient
  bool has_gradient = true;
  std::optional<bool> use_local;
};

std::optional<DType> sent_in(const std::optional<SentDtype>& option, std::span<const Step> steps) {
  return option && communicates(steps) ? std::optional(option->dtype) : std::nullopt;
}

// The value's layout on every axis: cut along the batch by data axes, whole on the others, and as the rule says on its
// own, be it a data axis too.
std::vector<Placement> over_mesh(const TpPlan& plan, AxisId axis, const Placement& placement) {
  std::vector<Placement> placements(plan.mesh.axes.size());
  if (plan.data) {
    for (const AxisId data : plan.data->axes) placements[data] = {.kind = PlacementKind::Shard, .dim = plan.data->dim};
  }
  placements[axis] = placement;
  return placements;
}

// Token ids, which have no gradient, are sent as they are.
ValueBoundary make_value(const TpPlan& plan, const PlanRule& rule, const AxisBoundary& boundary) {
  const AxisId axis = rule.axis;
  ValueBoundary value;
  value.use_local = boundary.use_local;
  if (boundary.from) value.from = over_mesh(plan, axis, *boundary.from);
  if (boundary.to) value.to = over_mesh(plan, axis, *boundary.to);
  if (!value.from || !value.to) return value;
  // Plans in which this fails were refused when they were read.
  value.forward = steps_between(*value.from, *value.to, plan.mesh).value_or(std::vector<Step>{});
  if (!boundary.has_gradient) return value;
  value.gradient = gradient_layouts(*value.from, *value.to, axis, boundary.sums);
  value.backward = *steps_between(value.gradient->from, value.gradient->to, plan.mesh);
  value.forward_dtype = sent_in(rule.options.forward_dtype, value.forward);
  value.backward_dtype = sent_in(rule.options.backward_dtype, value.backward);
  return value;
}

Layout first_layout(const std::optional<std::vector<Layout>>& layouts, const Placement& standard) {
  return layouts && !layouts->empty() ? layouts->front() : Layout(standard);
}

// What decides over a boundary beside its rule.
struct Surroundings {
  bool embedding = false;
  bool fed_by_prepared =
      false;  // its input comes whole and as DTensor from a prepared module around it, which sums the gradient
  bool feeds_products =
      false;  // it is a prepared module with column-sharded products in it, which leave gradients open
};

// Styles that own the one input and output of their module.
void add_style(const TpPlan& plan, const PlanRule& rule, const Surroundings& around, BoundaryLayout& boundary) {
  const bool embedding = around.embedding;
  const StyleRow& style = *rule.style;
  BoundaryRow input = style.input, output = style.output;
  if (embedding && style.input.used && style.options != 0) {
    // Token ids have no gradient and are used whole (torch 2.13, RowwiseParallel). Torch still takes them for shards of
    // the last dim where nothing is said; the other dialects do not.
    input = {.used = true, .from = plan.dialect->takes_ids_for_shards ? input.from : Placement{}, .to = {}};
  }
  if (rule.options.sequence_dim) {
    const Placement sequence{.kind = PlacementKind::Shard, .dim = *rule.options.sequence_dim};
    input.from = input.to = output.from = output.to = sequence;
  }
  if (input.used) {
    // What comes as a DTensor is what it is, whatever the rule takes plain tensors for (torch 2.13, style.py:
    // _prepare_input_fn).
    const Layout comes =
        around.fed_by_prepared ? Layout(input.to) : first_layout(rule.options.input_layouts, input.from);
    boundary.inputs.push_back(make_value(plan, rule,
                                         {.from = comes,
                                          .to = input.to,
                                          .sums = !input.gradient_is_partial ? GradientSums::None
                                                  : around.fed_by_prepared   ? GradientSums::Open
                                                                             : GradientSums::Closed,
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

// The layout that a keyword argument is brought to; none where the rule has no word for it, and it stays as it comes.
Layout wanted_of(const RuleOptions& options, std::string_view name) {
  const auto& wanted = *options.desired_input_kwarg_layouts;
  const auto found = std::find_if(wanted.begin(), wanted.end(), [name](const auto& k) { return k.first == name; });
  return found == wanted.end() ? Layout{} : found->second;
}

bool is_whole(const Layout& layout) { return layout && layout->kind == PlacementKind::Replicate; }

// prepare_module_*: what the rule says, value by value. Where a whole input goes on as DTensor into column-sharded
// products, its gradient comes back Partial and is summed where the value became whole, once: here, or in the prepared
// module around this one that handed it on whole. As a local tensor its gradient is taken to be whole (torch 2.13,
// style.py; measured with CommDebugMode).
void add_prepared(const TpPlan& plan, const PlanRule& rule, const Surroundings& around, BoundaryLayout& boundary) {
  const StyleRow& style = *rule.style;
  const RuleOptions& o = rule.options;
  const bool local_input =
      style.output.used ? o.use_local_input.value_or(false) : o.use_local_output.value_or(style.use_local);
  const auto input = [&](const Layout& from, const Layout& to) {
    const bool passes_on = is_whole(from) && around.fed_by_prepared;
    const bool open = from && is_whole(to) && around.feeds_products;
    return AxisBoundary{.from = from,
                        .to = to,
                        .sums = !open       ? GradientSums::None
                                : passes_on ? GradientSums::Open
                                            : GradientSums::Closed,
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
  if (plan.uneven == UnevenPolicy::Error || plan.dialect->passes_whole_sizes_on) return;
  const PlanRule& rule = plan.rules[boundary.rule];
  const bool local_shard = !boundary.outputs.empty() && boundary.outputs[0].use_local.value_or(false) &&
                           boundary.outputs[0].to && (*boundary.outputs[0].to)[rule.axis].kind == PlacementKind::Shard;
  if (!local_shard || rule.style->cut_dim != kDimOut) return;
  for (const Param& param : params_of(graph, module)) {
    const int dim = find_dim(dims_of(graph, module, param), kDimOut);
    const int64_t ways = plan.mesh.axes[rule.axis].size;
    if (dim < 0 || divides(ways, shape_of(graph, param)[static_cast<size_t>(dim)])) continue;
    Diagnostic* d = report(diagnostics, Code::TP5017, rule.value_span, fmt::format("{}", boundary.rule));
    if (d == nullptr) return;
    d->message = fmt::format(
        "the output of `{}` has {} columns, cut unevenly over `{}` ({}), and leaves as a local tensor", module.path,
        shape_of(graph, param)[static_cast<size_t>(dim)], axis_name(plan.mesh, rule.axis), ways);
    d->counted = "module";
    d->notes.push_back(
        {"torch rebuilds the whole size from one rank's piece, and gets another number", span_of(graph, param)});
    d->help = "write `use_local_output: false`, or pad the size";
    return;
  }
}

void warn_gathered_ids(const TpPlan& plan, const Module& module, const BoundaryLayout& boundary,
                       Diagnostics& diagnostics) {
  if (module.kind != ModuleKind::Embedding || boundary.inputs.empty() || boundary.inputs[0].forward.empty()) return;
  const PlanRule& rule = plan.rules[boundary.rule];
  Diagnostic* d = report(diagnostics, Code::TP5020, rule.value_span, fmt::format("{}", boundary.rule));
  if (d == nullptr) return;
  d->message =
      fmt::format("the token ids that enter `{}` are gathered over `{}`", module.path, axis_name(plan.mesh, rule.axis));
  d->counted = "module";
  d->notes.push_back(
      {"RowwiseParallel takes its input for Shard(-1) unless told otherwise: 8 ids become 8 x ranks ids", {}});
  d->help = "write `{style: rowwise, input_layouts: Replicate}`";
}

// By path: the keywords under which the recorded calls of a module give tensors.
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

// Torch looks the keywords of a call up among those of the rule, so that one that never comes does nothing.
void warn_keywords_not_given(const PlanRule& rule, const Module& module, const GivenKeywords& given,
                             Diagnostics& diagnostics) {
  const auto calls = given.find(module.path);
  if (calls == given.end()) return;  // never called in the recorded step
  const std::vector<std::string_view> known(calls->second.begin(), calls->second.end());
  for (const auto& [name, layout] : *rule.options.input_kwarg_layouts) {
    if (!layout || calls->second.contains(name)) continue;
    Diagnostic* d = report(diagnostics, Code::TP5022, rule.value_span, name);
    if (d == nullptr) continue;
    d->counted = "module";
    d->message = fmt::format("`input_kwarg_layouts` names `{}`, and no call of `{}` gives a tensor under that name",
                             name, module.path);
    d->notes.push_back({known.empty() ? std::string("its tensors come without names")
                                      : fmt::format("the recorded step gives `{}`", fmt::join(known, "`, `")),
                        {}});
    const std::string_view nearest = nearest_name(name, known);
    d->help = !nearest.empty() ? fmt::format("did you mean `{}`?", nearest)
              : known.empty()  ? "name its layouts by position, in `input_layouts`"
                               : "leave it out, or name one that is given";
  }
}

// What a prepared module does to the values that its rule names, as far as gradients care.
struct Handing {
  bool any = false;        // it takes a value at all; a rule of `null` placeholders lets everything through
  bool whole = false;      // it hands one on whole, as DTensor: its gradient may come back open
  bool was_whole = false;  // one that came whole already: nothing is done to it, and nothing to its gradient
};

Handing handing_of(const PlanRule& rule) {
  Handing handing;
  if (rule.style == nullptr || rule.style->touches_parameters || !rule.style->input.used) return handing;
  const RuleOptions& o = rule.options;
  const bool local = (rule.style->output.used ? o.use_local_input : o.use_local_output).value_or(false);
  const auto add = [&](const Layout& from, const Layout& to) {
    handing.any = handing.any || from || to;
    handing.whole = handing.whole || (!local && is_whole(to));
    handing.was_whole = handing.was_whole || (!local && is_whole(to) && is_whole(from));
  };
  for (size_t i = 0; o.input_layouts && i < o.input_layouts->size(); ++i)
    add((*o.input_layouts)[i], (*o.desired_input_layouts)[i]);
  for (const auto& [name, from] : o.input_kwarg_layouts.value_or(std::vector<std::pair<std::string, Layout>>{})) {
    add(from, wanted_of(o, name));
  }
  return handing;
}

// For each match: what is around it. A product is fed by the nearest prepared module above it on the same axis, and
// that one by the next, as far as values pass whole and as DTensors.
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
      if (above == matches.boundaries.size() || !handing[matches.boundaries[above].rule].whole) break;
      around[at].fed_by_prepared = around[above].feeds_products = true;
      if (!handing[matches.boundaries[above].rule].was_whole) break;
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

// A type that nothing is sent in: no module under its rule has a collective that way.
void warn_nothing_sent(const TpPlan& plan, const BoundaryTable& table, Diagnostics& diagnostics) {
  std::vector<bool> stands(plan.rules.size());
  const auto sends = [&](RuleId rule, std::optional<DType> ValueBoundary::*dtype) {
    return std::ranges::any_of(table.layouts, [&](const BoundaryLayout& layout) {
      const auto is_sent = [dtype](const ValueBoundary& value) { return (value.*dtype).has_value(); };
      return layout.rule == rule &&
             (std::ranges::any_of(layout.inputs, is_sent) || std::ranges::any_of(layout.outputs, is_sent));
    });
  };
  for (const BoundaryLayout& layout : table.layouts) stands[layout.rule] = true;
  for (RuleId id = 0; id < plan.rules.size(); ++id) {
    const RuleOptions& o = plan.rules[id].options;
    const std::tuple<StyleOption, const std::optional<SentDtype>&, std::optional<DType> ValueBoundary::*> options[] = {
        {kForwardDtype, o.forward_dtype, &ValueBoundary::forward_dtype},
        {kBackwardDtype, o.backward_dtype, &ValueBoundary::backward_dtype}};
    for (const auto& [option, said, member] : options) {
      if (!said || !stands[id] || sends(id, member)) continue;
      const bool forward = option == kForwardDtype;
      Diagnostic* d = report(diagnostics, Code::TP3018, said->span, "");
      if (d == nullptr) continue;
      d->message = fmt::format("`{}` changes nothing: {} sends {} between ranks", option_name(option),
                               plan.rules[id].style->name, forward ? "no value forward" : "no gradient backward");
      d->help = fmt::format("remove it, or write layouts between which {} are sent", forward ? "values" : "gradients");
    }
  }
}

// Who cuts the batch cuts what enters the model: some input must have the dim.
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
  Diagnostic* d = report(diagnostics, Code::TP5023, data.dim_span, "");
  if (d == nullptr) return;
  d->message = fmt::format("the batch is cut along dim {}, and no input of the model has one", data.dim);
  d->notes.push_back({fmt::format("the recorded step takes {}", fmt::join(inputs, ", ")), {}});
  d->help = most == 0 ? "leave out `data`: no input has a batch" : "write `dim: 0` where the batch comes first";
}

}  // namespace

BoundaryTable infer_boundaries(const TpPlan& plan, const ModelGraph& graph, const MatchTable& matches,
                               Diagnostics& diagnostics) {
  BoundaryTable table;
  if (plan.data && graph.operations.is_there) check_batch_dim(*plan.data, graph.operations, diagnostics);
  table.modules.reserve(matches.boundaries.size());
  // By rule and surroundings.
  std::vector<std::array<uint32_t, 8>> known(plan.rules.size());
  for (auto& layouts : known) layouts.fill(kNone);
  const std::vector<Surroundings> around = look_around(plan, graph, matches);
  const bool asks_keywords = graph.operations.is_there && std::ranges::any_of(plan.rules, [](const PlanRule& rule) {
                               return rule.options.input_kwarg_layouts && !rule.options.input_kwarg_layouts->empty();
                             });
  const GivenKeywords given = asks_keywords ? keywords_given(graph) : GivenKeywords{};
  for (size_t i = 0; i < matches.boundaries.size(); ++i) {
    const BoundaryMatch& match = matches.boundaries[i];
    const PlanRule& rule = plan.rules[match.rule];
    if (rule.style == nullptr) continue;
    const Module& module = graph.modules[match.module];
    uint32_t& layout =
        known[match.rule][around[i].embedding + 2u * around[i].fed_by_prepared + 4u * around[i].feeds_products];
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
    warn_gathered_ids(plan, module, table.layouts[layout], diagnostics);
    if (rule.options.input_kwarg_layouts) warn_keywords_not_given(rule, module, given, diagnostics);
    table.modules.push_back({match.module, layout});
  }
  warn_nothing_sent(plan, table, diagnostics);
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
