#include "judge/forecast_program.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <map>

#include "base/text.h"
#include "programs/argument_behind.h"
#include "programs/attribute_text.h"
#include "programs/place_program.h"
#include "programs/recorded_program.h"
#include "programs/write_propagation.h"

namespace tpplan {
namespace {

using programs::WrittenDim;
using programs::WrittenDims;

void add_axis(const Mesh& mesh, AxisId axis, WrittenDim& dim) {
  if (mesh.axes[axis].size > 1) dim.axes.emplace_back(mesh.axes[axis].name);
}

WrittenDims written_spec(const Mesh& mesh, const PartitionSpec& spec) {
  std::vector<WrittenDim> dims(spec.size());
  for (size_t d = 0; d < spec.size(); ++d) {
    for (const AxisId axis : spec[d]) add_axis(mesh, axis, dims[d]);
  }
  return dims;
}

// Returns the sharding of an input: the data axes shard its batch if they divide it.
WrittenDims input_dims(const TpPlan& plan, std::span<const int64_t> shape) {
  std::vector<WrittenDim> dims(shape.size());
  if (!plan.data || plan.data->dim < 0 || static_cast<size_t>(plan.data->dim) >= shape.size()) return dims;
  const auto batch = static_cast<size_t>(plan.data->dim);
  if (shape[batch] % shard_count(plan.data->axes, plan.mesh) != 0) return dims;
  for (const AxisId axis : plan.data->axes) add_axis(plan.mesh, axis, dims[batch]);
  return dims;
}

bool is_uneven(const Mesh& mesh, const WrittenDim& dim, int64_t size) {
  int64_t count = 1;
  for (const std::string_view axis : dim.axes) count *= mesh.axes[find_axis(mesh, axis)].size;
  return size % count != 0;
}

// Returns the layout of a marked value as a sharding, as layout_spec in tools/python/tpplan/jax/boundaries.py. nullopt
// if tpplan.jax leaves the value to XLA, or rejects it.
WrittenDims layout_dims(const TpPlan& plan, const std::vector<Placement>& layout, const programs::MarkedValue& value) {
  std::vector<int64_t> mapped, own;  // dims that vmap added, and those that the module sees
  for (const std::string_view text : split(value.mapped, ',')) {
    int64_t dim = 0;
    if (programs::read_integer(text, dim)) mapped.push_back(dim);
  }
  std::vector<WrittenDim> dims(value.shape.size());
  for (int64_t d = 0; d < static_cast<int64_t>(value.shape.size()); ++d) {
    if (std::ranges::find(mapped, d) == mapped.end())
      own.push_back(d);
    else
      dims[static_cast<size_t>(d)].is_open = true;
  }
  const int batch = plan.data ? plan.data->dim : 0;
  for (AxisId axis = 0; axis < layout.size(); ++axis) {
    const Placement& p = layout[axis];
    if (p.kind == PlacementKind::Partial) return std::nullopt;
    if (!is_shard(p) || plan.mesh.axes[axis].size == 1) continue;
    if (!mapped.empty() && is_data_axis(plan, axis)) continue;
    const auto count = static_cast<int64_t>(own.size());
    const int64_t dim = p.dim < 0 ? count + p.dim : p.dim - (!mapped.empty() && p.dim > batch ? 1 : 0);
    if (dim < 0 || dim >= count) return std::nullopt;
    add_axis(plan.mesh, axis, dims[static_cast<size_t>(own[static_cast<size_t>(dim)])]);
  }
  for (size_t d = 0; d < dims.size(); ++d) {
    if (is_uneven(plan.mesh, dims[d], value.shape[d])) return std::nullopt;
  }
  return dims;
}

// True if a LayoutMap has an entry for this boundary (tools/python/tpplan/keras.py, layout_map).
bool is_in_layout_map(const BoundaryLayout& layout, const std::vector<Placement>& value, bool is_output) {
  return is_output && layout.outputs.size() == 1 &&
         std::ranges::none_of(value, [](const Placement& p) { return is_shard(p) && p.dim < 0; });
}

WrittenDims constraint_of(const ResolvedPlan& in, const programs::MarkedValue& marked) {
  const bool is_output = marked.value.starts_with("out ");
  const std::string_view name = marked.value.substr(std::min<size_t>(marked.value.size(), is_output ? 4 : 3));
  int64_t arg = 0;
  const bool is_positional = programs::read_integer(name, arg);
  const ModuleId module = find_module(in.model, marked.module);
  for (const ModuleBoundary& boundary : in.boundaries.modules) {
    if (boundary.module != module) continue;
    const BoundaryLayout& layout = in.boundaries.layouts[boundary.layout];
    for (const ValueBoundary& value : is_output ? layout.outputs : layout.inputs) {
      if (value.kwarg.empty() ? !is_positional || value.arg != arg : value.kwarg != name) continue;
      const std::optional<std::vector<Placement>>& placed = value.to ? value.to : value.from;
      if (!placed || (in.model.framework == Framework::Keras && !is_in_layout_map(layout, *placed, is_output)))
        return std::nullopt;
      return layout_dims(in.plan, *placed, marked);
    }
  }
  return std::nullopt;
}

// A place in the program as the recorder writes it: "layers.0.mlp: dot_general (backward)".
struct Location {
  std::string_view module, operation;
  bool backward = false;
};

Location read_location(std::string_view text) {
  Location location;
  constexpr std::string_view kBackward = " (backward)";
  location.backward = text.ends_with(kBackward);
  if (location.backward) text.remove_suffix(kBackward.size());
  const size_t colon = text.find(": ");
  location.module = colon == std::string_view::npos ? std::string_view{} : text.substr(0, colon);
  location.operation = colon == std::string_view::npos ? text : text.substr(colon + 2);
  return location;
}

// Returns the parameter that a value is computed from; kNone if it is computed otherwise.
ParamId parameter_behind(const ResolvedPlan& in, const programs::Program& p, programs::ValueIndex value) {
  const programs::ValueIndex behind = programs::argument_behind(p, value);
  if (behind == programs::kNoIndex) return kNone;
  const programs::ProgramArgument& argument = in.model.program->arguments[behind];
  return argument.kind == programs::ArgumentKind::Param ? find_param(in.model, argument.path) : kNone;
}

// Returns the parameter that an operation reads: a sharded one if there are several.
ParamId parameter_of(const ResolvedPlan& in, const programs::Program& p, programs::OperationIndex id) {
  ParamId found = kNone;
  for (uint32_t i = 0; i < p.operations[id].operand_count; ++i) {
    const ParamId param = parameter_behind(in, p, programs::operand_of(p, p.operations[id], i));
    if (param == kNone) continue;
    if (!is_fully_replicated(sharding_of(in.shardings, param).spec, in.plan.mesh)) return param;
    if (found == kNone) found = param;
  }
  return found;
}

// Returns the rule of the boundary of a module or of the nearest module around it.
RuleId rule_around(const ResolvedPlan& in, std::string_view module) {
  for (ModuleId id = find_module(in.model, module); id != kNone; id = parent_of(in.model, id)) {
    for (const BoundaryMatch& match : in.matches.boundaries) {
      if (match.module == id) return match.rule;
    }
  }
  return kNoRule;
}

CompiledCall call_of(const ResolvedPlan& in, const programs::Program& placed, const programs::Program& p,
                     const programs::ProgramCollective& c) {
  CompiledCall call{.kind = programs::kind_name(c.kind), .bytes = c.bytes, .times = c.times};
  call.wire = programs::sent_bytes({c});
  for (const programs::AxisPart& axis : c.axes) call.axes.push_back(programs::axis_text(p, axis));
  if (c.operation == programs::kNoIndex) {
    call.operation = "result of the program";
    call.backward = in.model.program->has_backward;
    return call;
  }
  programs::OperationIndex id = c.operation;
  if (p.operations[id].kind == programs::OperationClass::Edge && p.operations[id].owner != programs::kNoIndex)
    id = p.operations[id].owner;
  const Location at = read_location(p.operations[id].location);
  call.backward = at.backward;
  call.module = at.module;
  call.operation = at.operation;
  RuleId rule = kNoRule;
  if (id < placed.recorded_operations) {
    if (const ParamId param = parameter_of(in, placed, id); param != kNone) {
      call.parameter = path_of(in.model, in.model.params[param]);
      rule = in.shardings.params[param].rule;
    }
  }
  if (rule == kNoRule && call.parameter.empty()) rule = rule_around(in, at.module);
  if (rule != kNoRule) call.rule = in.plan.rules[rule].key;
  return call;
}

std::string uncovered_text(const programs::Propagation& propagation, size_t ignored) {
  std::map<std::string_view, uint64_t> names;
  for (const programs::OperationIndex id : propagation.unruled) ++names[propagation.program.operations[id].name];
  std::vector<std::string> words, sentences;
  for (const auto& [name, count] : names)
    words.push_back(count == 1 ? std::string(name) : fmt::format("{} x {}", count, name));
  if (!words.empty())
    sentences.push_back(fmt::format("no shardings propagate through operations without a rule: {}", join(words, ", ")));
  if (ignored > 0)
    sentences.push_back(
        fmt::format("{} of the program's own do not apply on this mesh", counted(ignored, "constraint")));
  return join(sentences, "; ");
}

// Returns the line of a call for `--print operations`.
std::string line_of(const CompiledCall& call) {
  std::string line = fmt::format("{} over {}, {} B", call.kind, join(call.axes, ","), call.bytes);
  if (call.times != 1) line += fmt::format(" x{}", call.times);
  line += fmt::format(": {}{}{}", call.module, call.module.empty() ? "" : ": ", call.operation);
  if (call.backward) line += " (backward)";
  if (!call.parameter.empty()) line += fmt::format(", reads {}", call.parameter);
  if (!call.rule.empty()) line += fmt::format(", rule \"{}\"", call.rule);
  return line + "\n";
}

}  // namespace

programs::Program place_model_program(const ResolvedPlan& in, size_t& ignored_constraints) {
  const programs::RecordedProgram& recorded = *in.model.program;
  programs::ProgramPlacement placement;
  for (const MeshAxis& axis : in.plan.mesh.axes) {
    placement.axis_names.push_back(axis.name);
    placement.axis_sizes.push_back(axis.size);
  }
  const auto spec_of_param = [&](std::string_view path) {
    return written_spec(in.plan.mesh, sharding_of(in.shardings, find_param(in.model, path)).spec);
  };
  for (size_t i = 0; i < recorded.arguments.size(); ++i) {
    const programs::ProgramArgument& argument = recorded.arguments[i];
    const auto shape = programs::shape_of(recorded.program, static_cast<programs::ValueIndex>(i));
    if (argument.kind == programs::ArgumentKind::Param)
      placement.arguments.push_back(spec_of_param(argument.path));
    else if (argument.kind == programs::ArgumentKind::Input)
      placement.arguments.push_back(input_dims(in.plan, shape));
    else
      placement.arguments.emplace_back(std::vector<WrittenDim>(shape.size()));
  }
  for (const std::string_view path : recorded.results)
    placement.results.push_back(path.empty() ? WrittenDims{} : spec_of_param(path));
  placement.constraint_of = [&in](const programs::MarkedValue& value) { return constraint_of(in, value); };
  return programs::place_program(recorded.program, placement, ignored_constraints);
}

Forecast forecast_program(const ResolvedPlan& in, Diagnostics& diagnostics) {
  Forecast forecast{.limit = ForecastLimit::Compiled};
  size_t ignored = 0;
  const programs::Program placed = place_model_program(in, ignored);
  const programs::Propagation propagation = programs::propagate_program(placed, diagnostics);
  if (has_errors(diagnostics)) return forecast;
  for (const programs::ProgramCollective& c : propagation.xla)
    forecast.compiled.push_back(call_of(in, placed, propagation.program, c));
  for (const CompiledCall& call : forecast.compiled) forecast.listing += line_of(call);
  forecast.uncovered = uncovered_text(propagation, ignored);
  return forecast;
}

}  // namespace tpplan
