// The programs of tpplan's runtime: what tools/python/tpplan/torch does at the boundaries in a manifest.
#include "walk/boundary/tpplan_programs.h"

#include <algorithm>
#include <compare>
#include <map>

#include "model/module_kinds.h"
#include "styles/style_table.h"

namespace tpplan {
namespace {

bool is_one_of(AxisId axis, std::span<const AxisId> axes) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

// True if the axes shard a dim of the parameter segment by segment, for which DTensor has no placement.
bool is_fused(const Sharding& sharding, std::span<const AxisId> axes) {
  for (size_t dim = 0; dim < sharding.spec.size(); ++dim) {
    const DimAxes& dim_axes = sharding.spec[dim];
    const bool is_walked_dim =
        std::any_of(dim_axes.begin(), dim_axes.end(), [&](AxisId axis) { return is_one_of(axis, axes); });
    if (is_walked_dim && segments_of(sharding, dim).size() > 1) return true;
  }
  return false;
}

std::vector<Placement> over_axes(const std::vector<Placement>& placements, std::span<const AxisId> axes) {
  std::vector<Placement> found;
  for (const AxisId axis : axes) found.push_back(placements[axis]);
  return found;
}

// Returns the steps that the layouts of the manifest do not specify. They use the axis of the rule.
std::vector<LayoutStep> extra_steps(Steps steps) {
  std::vector<LayoutStep> extra;
  for (const BoundaryStep& step : steps) {
    if (!has_layout(step.kind)) extra.push_back({step.kind, {}});
  }
  return extra;
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
               const std::vector<Placement>& partial_sums) {
  if (!value.from) return;
  ValueProgram program = program_of(value, rule);
  add_layouts(program, value, axes);
  // If a replicated input is multiplied by sharded weights, every rank has a partial gradient of it.
  if (module.runs_locally)
    program.steps.push_back({StepKind::ToLocalPartial, partial_sums});
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

// The facts that determine a module's program.
struct ModuleFacts {
  std::vector<uint32_t> layouts;      // of its boundaries, indices into BoundaryTable::layouts
  std::vector<size_t> sharding_axes;  // indices of the walked axes that shard parameters of the module
  bool is_fused = false, has_params = false, is_linear = false;
  auto operator<=>(const ModuleFacts&) const = default;
};

ModuleFacts facts_of(const ModelGraph& model, const ShardingTable& shardings, std::span<const AxisId> axes,
                     ModuleId id) {
  const Module& module = model.modules[id];
  ModuleFacts facts{.layouts = {},
                    .sharding_axes = {},
                    .has_params = module.param_count > 0,
                    .is_linear = module.kind == ModuleKind::Linear};
  for (ParamId param = module.first_param; param < module.first_param + module.param_count; ++param) {
    const Sharding& sharding = sharding_of(shardings, param);
    facts.is_fused = facts.is_fused || is_fused(sharding, axes);
    for (size_t axis = 0; axis < axes.size(); ++axis) {
      if (uses_axis(sharding.spec, axes[axis])) facts.sharding_axes.push_back(axis);
    }
  }
  if (facts.sharding_axes.size() < 2) return facts;
  std::sort(facts.sharding_axes.begin(), facts.sharding_axes.end());
  facts.sharding_axes.erase(std::unique(facts.sharding_axes.begin(), facts.sharding_axes.end()),
                            facts.sharding_axes.end());
  return facts;
}

ModuleProgram build_program(const TpPlan& plan, const BoundaryTable& boundaries, const ModuleFacts& facts,
                            std::span<const AxisId> axes) {
  ModuleProgram module{.has_params = facts.has_params, .runs_locally = facts.is_fused};
  for (const uint32_t id : facts.layouts) {
    const RuleId rule = boundaries.layouts[id].rule;
    const TpplanSteps& steps = plan.rules[rule].style->tpplan;
    if (module.rule == kNoRule) module.rule = rule;
    module.runs_locally = module.runs_locally || steps.runs_locally;
    module.dispatches_experts = module.dispatches_experts || steps.dispatches_experts;
    const bool is_one_axis = !extra_steps(steps.input).empty() || !extra_steps(steps.output).empty();
    if (is_one_axis && axes.size() != 1) module.rejected = "needs a mesh with one axis besides the data axes";
  }
  std::vector<Placement> partial_sums(axes.size());
  for (const size_t axis : facts.sharding_axes) partial_sums[axis].kind = PlacementKind::Partial;
  for (const uint32_t id : facts.layouts) {
    const BoundaryLayout& layout = boundaries.layouts[id];
    for (const ValueBoundary& value : layout.inputs) add_input(module, value, layout.rule, axes, partial_sums);
  }
  for (const uint32_t id : facts.layouts) {
    const BoundaryLayout& layout = boundaries.layouts[id];
    const TpplanSteps& steps = plan.rules[layout.rule].style->tpplan;
    if (auto extra = extra_steps(steps.input); !extra.empty())
      module.inputs.push_back({.position = 0, .key = {}, .rule = layout.rule, .steps = std::move(extra)});
    if (auto extra = extra_steps(steps.output); !extra.empty())
      module.outputs.insert(module.outputs.begin(),
                            {.position = 0, .key = {}, .rule = layout.rule, .steps = std::move(extra)});
    for (const ValueBoundary& value : layout.outputs) {
      add_output(module, value, layout.rule, axes, facts.is_fused);
      const bool is_partial = value.from && std::any_of(value.from->begin(), value.from->end(), [](const Placement& p) {
                                return p.kind == PlacementKind::Partial;
                              });
      module.adds_bias_late = module.adds_bias_late || (is_partial && module.runs_locally && facts.is_linear);
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
