// The programs of our own runtime: what tools/python/tpplan/torch does at the boundaries that a manifest says.
#include <algorithm>
#include <iterator>

#include "model/module_kinds.h"
#include "walk/style_programs.h"

namespace tpplan {
namespace {

// Styles whose modules ask for more than their boundaries say (tools/python/tpplan/torch/styles.py).
struct LocalStyle {
  std::string_view name;
  StepKind input = StepKind::ToLocal;   // what is done to the first argument beside its boundary
  StepKind output = StepKind::ToLocal;  // ToLocal: nothing
  bool is_dispatch = false;             // by code of the model that is not there
};

constexpr LocalStyle kLocalStyles[] = {
    {.name = "all_reduce"},
    {.name = "ep_dispatch_experts", .is_dispatch = true},
    {.name = "grouped_gemm", .is_dispatch = true},
    {.name = "local_params"},
    {.name = "mla_kv_a_proj", .output = StepKind::SumTailGradient},
    {.name = "moe_identity_expert", .input = StepKind::Divide},
    {.name = "moe_tp_experts"},
    {.name = "packed_colwise"},
    {.name = "packed_rowwise"},
};

const LocalStyle* find_local_style(std::string_view name) {
  const auto* row = std::find_if(std::begin(kLocalStyles), std::end(kLocalStyles),
                                 [name](const LocalStyle& s) { return s.name == name; });
  return row == std::end(kLocalStyles) ? nullptr : row;
}

// Whether the axis cuts segments of the parameter, each by itself: DTensor has no word for that.
bool is_fused(const Sharding& sharding, AxisId axis) {
  for (size_t dim = 0; dim < sharding.spec.size(); ++dim) {
    const DimAxes& axes = sharding.spec[dim];
    if (segments_of(sharding, dim).size() > 1 && std::find(axes.begin(), axes.end(), axis) != axes.end()) return true;
  }
  return false;
}

ValueProgram program_of(const ValueBoundary& value, RuleId rule) {
  return {.position = value.arg, .key = value.kwarg, .rule = rule, .steps = {}};
}

void add_layouts(ValueProgram& program, const ValueBoundary& value, AxisId axis) {
  const Placement& from = (*value.from)[axis];
  program.steps.push_back({StepKind::FromLocalCounted, from});
  program.steps.push_back({StepKind::Redistribute, value.to ? (*value.to)[axis] : from});
}

void add_input(ModuleProgram& module, const ValueBoundary& value, RuleId rule, AxisId axis, bool cuts_params) {
  if (!value.from) return;
  ValueProgram program = program_of(value, rule);
  add_layouts(program, value, axis);
  // A whole input that pieces of weights are multiplied with gets a part of its gradient on every rank.
  const bool is_open = cuts_params && program.steps.back().placement.kind == PlacementKind::Replicate;
  if (module.runs_locally)
    program.steps.push_back({is_open ? StepKind::ToLocalPartial : StepKind::ToLocal, {}});
  else if (value.use_local.value_or(false))
    program.steps.push_back({StepKind::ToLocal, {}});
  module.inputs.push_back(std::move(program));
}

void add_output(ModuleProgram& module, const ValueBoundary& value, RuleId rule, AxisId axis, bool is_fused) {
  if (!value.from) return;
  ValueProgram program = program_of(value, rule);
  const Placement from = (*value.from)[axis], to = value.to ? (*value.to)[axis] : from;
  if (is_fused && from == to) {
    module.outputs.push_back(std::move(program));
    return;
  }
  if (is_fused && is_shard(from)) {
    program.steps.push_back({StepKind::GatherSegments, {}});
    program.steps.push_back({StepKind::FromLocal, {}});
    program.steps.push_back({StepKind::Redistribute, to});
  } else {
    add_layouts(program, value, axis);
  }
  if (value.use_local.value_or(false)) program.steps.push_back({StepKind::ToLocal, {}});
  module.outputs.push_back(std::move(program));
}

}  // namespace

std::vector<ModuleProgram> build_tpplan_programs(const TpPlan& plan, const ModelGraph& model,
                                                 const BoundaryTable& boundaries, const ShardingTable& shardings,
                                                 AxisId axis) {
  std::vector<ModuleProgram> programs(model.modules.size());
  std::vector<uint8_t> fused(model.modules.size()), cut(model.modules.size());
  for (ModuleId id = 0; id < model.modules.size(); ++id) {
    const Module& module = model.modules[id];
    programs[id].has_params = module.param_count > 0;
    for (ParamId param = module.first_param; param < module.first_param + module.param_count; ++param) {
      const Sharding& sharding = sharding_of(shardings, param);
      fused[id] = fused[id] || is_fused(sharding, axis);
      cut[id] = cut[id] || uses_axis(sharding.spec, axis);
    }
    programs[id].runs_locally = fused[id];
  }
  for (const ModuleBoundary& boundary : boundaries.modules) {
    ModuleProgram& module = programs[boundary.module];
    const RuleId rule = boundaries.layouts[boundary.layout].rule;
    const LocalStyle* style = find_local_style(plan.rules[rule].style->name);
    if (module.rule == kNoRule) module.rule = rule;
    if (style == nullptr) continue;
    module.runs_locally = true;
    if (style->is_dispatch)
      module.refused = "dispatches tokens by code of transformers, and is not run by tpplan.torch";
  }
  for (const ModuleBoundary& boundary : boundaries.modules) {
    ModuleProgram& module = programs[boundary.module];
    const BoundaryLayout& layout = boundaries.layouts[boundary.layout];
    for (const ValueBoundary& value : layout.inputs)
      add_input(module, value, layout.rule, axis, cut[boundary.module] != 0);
  }
  for (const ModuleBoundary& boundary : boundaries.modules) {
    ModuleProgram& module = programs[boundary.module];
    const BoundaryLayout& layout = boundaries.layouts[boundary.layout];
    const LocalStyle* style = find_local_style(plan.rules[layout.rule].style->name);
    if (style != nullptr && style->input != StepKind::ToLocal)
      module.inputs.push_back({.position = 0, .key = {}, .rule = layout.rule, .steps = {{style->input, {}}}});
    if (style != nullptr && style->output != StepKind::ToLocal)
      module.outputs.insert(module.outputs.begin(),
                            {.position = 0, .key = {}, .rule = layout.rule, .steps = {{style->output, {}}}});
    for (const ValueBoundary& value : layout.outputs) {
      add_output(module, value, layout.rule, axis, fused[boundary.module] != 0);
      const bool is_open = value.from && std::any_of(value.from->begin(), value.from->end(), [](const Placement& p) {
                             return p.kind == PlacementKind::Partial;
                           });
      module.adds_bias_late = module.adds_bias_late || (is_open && module.runs_locally &&
                                                        model.modules[boundary.module].kind == ModuleKind::Linear);
    }
  }
  return programs;
}

}  // namespace tpplan
