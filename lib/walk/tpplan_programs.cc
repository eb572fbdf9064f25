// The programs of our own runtime: what tools/python/tpplan/torch does at the boundaries that a manifest says.
#include <algorithm>
#include <compare>
#include <iterator>
#include <map>

#include "model/module_kinds.h"
#include "walk/style_programs.h"

namespace tpplan {
namespace {

// Styles whose modules ask for more than their boundaries say (tools/python/tpplan/torch/styles.py).
struct LocalStyle {
  std::string_view name;
  StepKind input = StepKind::ToLocal;   // what is done to the first argument beside its boundary
  StepKind output = StepKind::ToLocal;  // ToLocal: nothing
  bool deals_experts = false;
  bool is_one_axis = false;  // sums or divides over the axis of its rule: a manifest says it only where it is alone
};

constexpr LocalStyle kLocalStyles[] = {
    {.name = "all_reduce"},
    {.name = "ep_dispatch_experts", .deals_experts = true},
    {.name = "local_params"},
    {.name = "mla_kv_a_proj", .output = StepKind::SumTailGradient, .is_one_axis = true},
    {.name = "moe_identity_expert", .input = StepKind::Divide, .is_one_axis = true},
    {.name = "moe_tp_experts"},
    {.name = "packed_colwise"},
    {.name = "packed_rowwise"},
};

const LocalStyle* find_local_style(std::string_view name) {
  const auto* row = std::find_if(std::begin(kLocalStyles), std::end(kLocalStyles),
                                 [name](const LocalStyle& s) { return s.name == name; });
  return row == std::end(kLocalStyles) ? nullptr : row;
}

bool is_one_of(AxisId axis, std::span<const AxisId> axes) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

// Whether the axes cut segments of the parameter, each by itself: DTensor has no word for that.
bool is_fused(const Sharding& sharding, std::span<const AxisId> axes) {
  for (size_t dim = 0; dim < sharding.spec.size(); ++dim) {
    const DimAxes& cuts = sharding.spec[dim];
    const bool cut = std::any_of(cuts.begin(), cuts.end(), [&](AxisId axis) { return is_one_of(axis, axes); });
    if (cut && segments_of(sharding, dim).size() > 1) return true;
  }
  return false;
}

std::vector<Placement> over_axes(const std::vector<Placement>& placements, std::span<const AxisId> axes) {
  std::vector<Placement> found;
  for (const AxisId axis : axes) found.push_back(placements[axis]);
  return found;
}

ValueProgram program_of(const ValueBoundary& value, RuleId rule) {
  return {.position = value.arg, .key = value.kwarg, .rule = rule, .steps = {}};
}

SentTypes sent_types(const ValueBoundary& value) {
  const auto name = [](std::optional<DType> type) { return type ? dtypes()[*type].name : std::string_view{}; };
  return {.forward = name(value.forward_dtype), .backward = name(value.backward_dtype)};
}

void add_layouts(ValueProgram& program, const ValueBoundary& value, std::span<const AxisId> axes) {
  program.steps.push_back({StepKind::FromLocalCounted, over_axes(*value.from, axes)});
  program.steps.push_back(
      {StepKind::Redistribute, over_axes(value.to ? *value.to : *value.from, axes), sent_types(value)});
}

void add_input(ModuleProgram& module, const ValueBoundary& value, RuleId rule, std::span<const AxisId> axes,
               const std::vector<Placement>& open) {
  if (!value.from) return;
  ValueProgram program = program_of(value, rule);
  add_layouts(program, value, axes);
  // A whole input that pieces of weights are multiplied with gets a part of its gradient on every rank.
  if (module.runs_locally)
    program.steps.push_back({StepKind::ToLocalPartial, open});
  else if (value.use_local.value_or(false))
    program.steps.push_back({StepKind::ToLocal, {}});
  module.inputs.push_back(std::move(program));
}

void add_output(ModuleProgram& module, const ValueBoundary& value, RuleId rule, std::span<const AxisId> axes,
                bool is_fused) {
  if (!value.from) return;
  ValueProgram program = program_of(value, rule);
  const std::vector<Placement> from = over_axes(*value.from, axes), to = value.to ? over_axes(*value.to, axes) : from;
  if (is_fused && from == to) {
    module.outputs.push_back(std::move(program));
    return;
  }
  if (is_fused && std::any_of(from.begin(), from.end(), is_shard)) {
    std::vector<Placement> gathered = from;
    std::replace_if(gathered.begin(), gathered.end(), is_shard, Placement{});
    if (value.forward_dtype) program.steps.push_back({StepKind::Cast, {}, sent_types(value)});
    program.steps.push_back({StepKind::GatherSegments, {}});
    program.steps.push_back({StepKind::FromLocal, gathered});
    program.steps.push_back({StepKind::Redistribute, to});
  } else {
    add_layouts(program, value, axes);
  }
  if (value.use_local.value_or(false)) program.steps.push_back({StepKind::ToLocal, {}});
  module.outputs.push_back(std::move(program));
}

// What a module's program follows from.
struct ModuleFacts {
  std::vector<uint32_t> layouts;  // of its boundaries, into BoundaryTable::layouts
  std::vector<size_t> cut;        // axes that cut parameters of the module, of those that are walked
  bool is_fused = false, has_params = false, is_linear = false;
  auto operator<=>(const ModuleFacts&) const = default;
};

ModuleFacts facts_of(const ModelGraph& model, const ShardingTable& shardings, std::span<const AxisId> axes,
                     ModuleId id) {
  const Module& module = model.modules[id];
  ModuleFacts facts{
      .layouts = {}, .cut = {}, .has_params = module.param_count > 0, .is_linear = module.kind == ModuleKind::Linear};
  for (ParamId param = module.first_param; param < module.first_param + module.param_count; ++param) {
    const Sharding& sharding = sharding_of(shardings, param);
    facts.is_fused = facts.is_fused || is_fused(sharding, axes);
    for (size_t axis = 0; axis < axes.size(); ++axis) {
      if (uses_axis(sharding.spec, axes[axis])) facts.cut.push_back(axis);
    }
  }
  if (facts.cut.size() < 2) return facts;
  std::sort(facts.cut.begin(), facts.cut.end());
  facts.cut.erase(std::unique(facts.cut.begin(), facts.cut.end()), facts.cut.end());
  return facts;
}

ModuleProgram build_program(const TpPlan& plan, const BoundaryTable& boundaries, const ModuleFacts& facts,
                            std::span<const AxisId> axes) {
  ModuleProgram module{.has_params = facts.has_params, .runs_locally = facts.is_fused};
  for (const uint32_t id : facts.layouts) {
    const RuleId rule = boundaries.layouts[id].rule;
    const LocalStyle* style = find_local_style(plan.rules[rule].style->name);
    if (module.rule == kNoRule) module.rule = rule;
    if (style == nullptr) continue;
    module.runs_locally = true;
    module.deals_experts = module.deals_experts || style->deals_experts;
    if (style->is_one_axis && axes.size() != 1) module.refused = "needs a mesh with one axis beside the data axes";
  }
  std::vector<Placement> open(axes.size());
  for (const size_t axis : facts.cut) open[axis].kind = PlacementKind::Partial;
  for (const uint32_t id : facts.layouts) {
    const BoundaryLayout& layout = boundaries.layouts[id];
    for (const ValueBoundary& value : layout.inputs) add_input(module, value, layout.rule, axes, open);
  }
  for (const uint32_t id : facts.layouts) {
    const BoundaryLayout& layout = boundaries.layouts[id];
    const LocalStyle* style = find_local_style(plan.rules[layout.rule].style->name);
    if (style != nullptr && style->input != StepKind::ToLocal)
      module.inputs.push_back({.position = 0, .key = {}, .rule = layout.rule, .steps = {{style->input, {}}}});
    if (style != nullptr && style->output != StepKind::ToLocal)
      module.outputs.insert(module.outputs.begin(),
                            {.position = 0, .key = {}, .rule = layout.rule, .steps = {{style->output, {}}}});
    for (const ValueBoundary& value : layout.outputs) {
      add_output(module, value, layout.rule, axes, facts.is_fused);
      const bool is_open = value.from && std::any_of(value.from->begin(), value.from->end(), [](const Placement& p) {
                             return p.kind == PlacementKind::Partial;
                           });
      module.adds_bias_late = module.adds_bias_late || (is_open && module.runs_locally && facts.is_linear);
    }
  }
  return module;
}

}  // namespace

ModulePrograms build_tpplan_programs(const TpPlan& plan, const ModelGraph& model, const BoundaryTable& boundaries,
                                     const ShardingTable& shardings, std::span<const AxisId> axes) {
  std::vector<ModuleFacts> facts;
  facts.reserve(model.modules.size());
  for (ModuleId id = 0; id < model.modules.size(); ++id) facts.push_back(facts_of(model, shardings, axes, id));
  for (const ModuleBoundary& boundary : boundaries.modules) facts[boundary.module].layouts.push_back(boundary.layout);
  std::map<ModuleFacts, uint32_t> known;
  ModulePrograms programs;
  programs.of_module.reserve(model.modules.size());
  for (ModuleFacts& of : facts) {
    const auto [entry, is_new] = known.try_emplace(std::move(of), static_cast<uint32_t>(programs.list.size()));
    if (is_new) programs.list.push_back(build_program(plan, boundaries, entry->first, axes));
    programs.of_module.push_back(entry->second);
  }
  return programs;
}

}  // namespace tpplan
