#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>

#include "base/text.h"
#include "commands.h"
#include "match/nearest_path.h"
#include "model/module_kinds.h"
#include "sharding/tensor_size.h"

namespace tpplan {
namespace {

int explain_code(const std::string& name) {
  const DiagnosticKind* kind = find_kind(name);
  const char* page = kind == nullptr ? nullptr : embedded_page(kind->name);
  if (page == nullptr) return usage_error(fmt::format("there is no diagnostic `{}`", escape_for_terminal(name)));
  return print(STDOUT_FILENO, page) ? kExitFine : kExitUsage;
}

std::string axes_product(const DimAxes& axes, const Mesh& mesh) {
  std::vector<std::string> parts;
  for (const AxisId axis : axes) parts.push_back(fmt::format("{} ({})", mesh.axes[axis].name, mesh.axes[axis].size));
  return join(parts, " x ");
}

std::string match_line(const Session& s, const ParamMatch& match) {
  const TpPlan& plan = s.compilation.plan;
  if (match.rule == kNoRule) return "no rule matches: replicated by default";
  const PlanRule& rule = plan.rules[match.rule];
  const std::string block = rule.block == kNoRule ? "" : fmt::format(" in block `{}`", plan.blocks[rule.block].text);
  return fmt::format("`{}`{} ({}:{}), {}, by {}", rule.key, block, s.plan.name, rule.line,
                     treatment_text(rule, plan.mesh), match.by_module ? "its module's path" : "its own path");
}

std::string init_line(const Session& s, const ParamInit& init) {
  const Compilation& c = s.compilation;
  if (init.distribution == kNone) return "nobody says: its module is of no kind that has a default";
  const std::string what = to_text(c.judgement.init.distributions[init.distribution]);
  if (init.entry == kNone) return what + ", the default of its module's kind";
  const ModulePattern& pattern = c.plan.init[init.entry].pattern;
  return fmt::format("{} by `{}` ({}:{})", what, pattern.text, s.plan.name,
                     line_column(s.plan, pattern.span.offset).line);
}

std::string fsdp_line(const Compilation& c, ParamId id) {
  const FsdpSettings& fsdp = *c.plan.fsdp;
  const std::string& axis = c.plan.mesh.axes[fsdp.axis].name;
  const uint64_t elements = elements_of(shape_of(c.graph, c.graph.params[id]));
  switch (c.judgement.shardings.params[id].fsdp) {
    case FsdpDecision::Sharded: {
      const PartitionSpec& spec = sharding_of(c.judgement.shardings, id).spec;
      for (size_t dim = 0; dim < spec.size(); ++dim) {
        if (std::find(spec[dim].begin(), spec[dim].end(), fsdp.axis) != spec[dim].end())
          return fmt::format("cuts dim {} over {}", dim, axis);
      }
      return "";
    }
    case FsdpDecision::AlreadyOnAxis:
      return fmt::format("left alone: it is on {} already", axis);
    case FsdpDecision::TooSmall:
      return fmt::format("left alone: {} elements are not more than min_weight_size {}", elements,
                         fsdp.min_weight_size);
    case FsdpDecision::NoDim:
      return fmt::format("left alone: no free dim divides by {} ({})", axis, c.plan.mesh.axes[fsdp.axis].size);
    case FsdpDecision::NotSelected:
      return "left alone: none of `fsdp.patterns` names it";
    case FsdpDecision::NotAsked:
      return "follows the tensor that it is tied to";
  }
  return "";
}

std::string explain_param(const Session& s, ParamId id) {
  const Compilation& c = s.compilation;
  const Param& param = c.graph.params[id];
  const Module& module = c.graph.modules[param.module];
  const Mesh& mesh = c.plan.mesh;
  const std::span<const int64_t> shape = shape_of(c.graph, param);
  const std::span<const std::string_view> dims = dims_of(c.graph, module, param);
  const ManifestParam& out = c.manifest.parameters[id];
  const ParamLayout& layout = layout_of(c.manifest, out);
  std::string text =
      fmt::format("{}  {} {}, {}{}\n", path_of(c.manifest, out), shape_text(shape), dtypes()[param.dtype].name,
                  type_of(c.graph, module).empty() ? "a plain container" : type_of(c.graph, module),
                  dims.empty() ? "" : fmt::format(" with dims ({})", fmt::join(dims, ", ")));
  const auto line = [&text](std::string_view what, std::string_view value) {
    text += fmt::format("  {:<9} {}\n", what, value);
  };
  line("match", match_line(s, c.judgement.matches.params[id]));
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    const DimAxes& axes = layout.sharding.spec[dim];
    if (axes.empty()) continue;
    const int64_t ways = shard_count(axes, mesh);
    line("legal", fmt::format("dim {} of {} over {}: {}", dim, shape[dim], axes_product(axes, mesh),
                              shape[dim] % ways == 0 ? fmt::format("{} a piece", shape[dim] / ways)
                                                     : "uneven, pieces as torch.chunk cuts them"));
  }
  if (c.judgement.shardings.params[id].reason == Reason::Tied)
    line("tied", "it is one tensor with a parameter that has a rule, and follows it");
  if (c.plan.fsdp) line("fsdp", fsdp_line(c, id));
  line("spec", fmt::format("{}, placements {}", to_text(layout.sharding.spec, mesh),
                           layout.placements ? to_text(*layout.placements) : "none (unequal segments)"));
  for (const DimSegments& segments : layout.sharding.segments)
    line("segments", fmt::format("dim {}: {}, each is cut by itself", segments.dim, shape_text(segments.sizes)));
  line("rank 0", shape_text(layout.local_shapes[0]));
  line("replicas", std::to_string(layout.replicas));
  line("gradient", layout.grad_reduce.empty() ? "no reduction" : to_text(layout.grad_reduce, mesh));
  line("init", init_line(s, c.judgement.init.params[id]));
  return text;
}

std::string layouts_text(const std::optional<std::vector<Placement>>& layouts) {
  return layouts ? to_text(*layouts) : "as it is";
}

std::string explain_values(std::string_view what, const std::vector<ManifestValue>& values, const Mesh& mesh) {
  std::string text;
  for (const ManifestValue& value : values) {
    text += fmt::format("  {} {}: {} -> {}", what, value.kwarg.empty() ? std::to_string(value.arg) : value.kwarg,
                        layouts_text(value.from), layouts_text(value.to));
    for (const auto& [direction, steps] :
         {std::pair{"forward", &value.forward}, std::pair{"backward", &value.backward}}) {
      for (const Step& step : *steps) text += fmt::format("; {} {}", direction, to_text(step.collective, mesh));
    }
    text += '\n';
  }
  return text;
}

// A module: its boundaries, then each of its own parameters.
std::string explain_module(const Session& s, ModuleId id) {
  const Compilation& c = s.compilation;
  const Module& module = c.graph.modules[id];
  std::string text = fmt::format("{}  {} ({})\n", module.path.empty() ? "<root>" : module.path,
                                 type_of(c.graph, module).empty() ? "a plain container" : type_of(c.graph, module),
                                 to_text(module.kind));
  for (const ModuleBoundary& at : c.judgement.boundaries.modules) {
    if (at.module != id) continue;
    const ModuleLayout& boundary = c.manifest.module_layouts[at.layout];
    const PlanRule& rule = c.plan.rules[boundary.rule];
    text += fmt::format("  boundary  `{}` ({}:{}), {}\n", rule.key, s.plan.name, rule.line, boundary.style);
    text += explain_values("  input", boundary.inputs, c.plan.mesh) +
            explain_values("  output", boundary.outputs, c.plan.mesh);
  }
  for (ParamId param = module.first_param; param < module.first_param + module.param_count; ++param)
    text += explain_param(s, param);
  return text;
}

}  // namespace

int cmd_explain(const ExplainArguments& arguments, const CommonArguments& common) {
  if (arguments.words.size() == 1) return explain_code(arguments.words[0]);
  if (arguments.words.size() != 3) return usage_error("explain takes MODEL PLAN PATH, or one diagnostic code");
  Session session;
  run_session(session, {.model = arguments.words[0], .plan = arguments.words[1], .mesh = arguments.mesh},
              Phase::Manifest, common);
  if (session.usage) return kExitUsage;
  const int status = exit_status(session.diagnostics);
  if (status != kExitFine) {
    print(STDERR_FILENO,
          render_human(session.diagnostics, sources_of(session), render_options(STDERR_FILENO, common.color)));
    return status;
  }
  const ModelGraph& graph = session.compilation.graph;
  const std::string& path = arguments.words[2];
  const ParamId param = find_param(graph, path);
  const ModuleId module = find_module(graph, path);
  if (param == kNone && module == kNone) {
    if (find_buffer(graph, path) != kNone)
      return print(STDOUT_FILENO, fmt::format("{}  is a buffer: replicated on every rank\n", escape_for_terminal(path)))
                 ? kExitFine
                 : kExitUsage;
    PathHints hints{.graph = graph};
    const std::string help = nearest_path_help(hints, path, PathsOf::ModulesAndParameters);
    return usage_error(fmt::format("the model has no parameter or module `{}`{}", escape_for_terminal(path),
                                   help.empty() ? "" : ": " + help));
  }
  const std::string text = param != kNone ? explain_param(session, param) : explain_module(session, module);
  std::string shown;
  for (const std::string_view line : split(text, '\n')) shown += escape_for_terminal(line) + "\n";
  shown.pop_back();
  return print(STDOUT_FILENO, shown) ? kExitFine : kExitUsage;
}

}  // namespace tpplan
