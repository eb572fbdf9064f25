#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <span>

#include "base/keyed_hash.h"
#include "base/text.h"
#include "commands.h"
#include "model/module_kinds.h"
#include "resolve/match/decide_dims.h"
#include "resolve/match/nearest_path.h"
#include "resolve/match/pattern.h"
#include "sharding/tensor_size.h"
#include "styles/explain_style.h"

namespace tpplan {
namespace {

int printed(std::string_view text, const CommonArguments& common, std::span<const LineColor> rows = kFactPaints) {
  return print_painted(text, rows, common.color) ? kExitFine : kExitUsage;
}

bool is_code(std::string_view name) {
  return name.size() > 2 && (name[0] == 'T' || name[0] == 't') && (name[1] == 'P' || name[1] == 'p') &&
         is_digits(name.substr(2));
}

std::string_view nearest_kind(const std::string& name) {
  std::vector<std::string_view> words;
  for (const DiagnosticKind& kind : diagnostic_kinds()) {
    words.emplace_back(kind.id);
    words.emplace_back(kind.name);
  }
  return nearest_name(name, words);
}

std::string no_code(const std::string& name) {
  const std::string_view nearest = nearest_kind(name);
  return fmt::format("there is no diagnostic `{}`{}; `tpplan rules` lists them", escape_for_terminal(name),
                     nearest.empty() ? "" : fmt::format(": did you mean `{}`?", nearest));
}

// Explains one word: the code or name of a diagnostic, or a style.
int explain_word(const std::string& name, const CommonArguments& common) {
  const DiagnosticKind* kind = find_kind(name);
  const char* page = kind == nullptr ? nullptr : embedded_page(kind->id);
  if (page != nullptr) return printed(page, common, kPagePaints);
  if (is_code(name)) return usage_error(no_code(name));
  if (const std::optional<std::string> style = explain_style(name)) return printed(*style, common);
  std::string_view nearest = nearest_style(name);
  if (nearest.empty()) nearest = nearest_kind(name);
  if (const DiagnosticKind* meant = find_kind("TP" + name); meant != nullptr) nearest = meant->id;
  return usage_error(fmt::format(
      "there is no diagnostic or style `{0}`{1}", escape_for_terminal(name),
      nearest.empty() ? "; `tpplan rules` lists the codes, `tpplan explain MODEL PLAN PATH` explains a parameter"
                      : fmt::format(": did you mean `{}`?", nearest)));
}

std::string axes_size_text(const DimAxes& axes, const Mesh& mesh) {
  std::vector<std::string> parts;
  for (const AxisId axis : axes) parts.push_back(fmt::format("{} ({})", axis_name(mesh, axis), mesh.axes[axis].size));
  return join(parts, " x ");
}

std::string match_line(const Session& s, const ParamMatch& match) {
  const TpPlan& plan = s.compilation.plan;
  if (match.rule == kNoRule) return "no rule matches: replicated by default";
  const PlanRule& rule = plan.rules[match.rule];
  const std::string block = rule.block == kNoRule ? "" : fmt::format(" in block `{}`", plan.blocks[rule.block].text);
  return fmt::format("`{}`{} ({}:{}), {}, matched by {}", rule.key, block, s.plan.name, rule.line,
                     rule_value_text(rule, plan.mesh), match.by_module ? "the module's path" : "the parameter's path");
}

std::string place_of(const Session& s, RuleId id) {
  const PlanRule& rule = s.compilation.plan.rules[id];
  return fmt::format("`{}: {}` ({}:{})", rule.key, rule_value_text(rule, s.compilation.plan.mesh), s.plan.name,
                     rule.line);
}

// Returns the rule of each dim, for dialects with rules per dim, and the rules skipped because another dim uses their
// axis.
std::vector<std::string> dim_lines(const Session& s, const Param& param) {
  const TpPlan& plan = s.compilation.plan;
  const std::span<const std::string_view> names = logical_axes_of(s.compilation.graph, param);
  std::vector<SkippedRule> skipped;
  const std::vector<RuleId> decided = resolve_dims(plan, rules_by_name(plan), names, &skipped);
  std::vector<std::string> lines;
  for (size_t dim = 0; dim < names.size(); ++dim) {
    std::string line = fmt::format("dim {} has no name", dim);
    if (!names[dim].empty())
      line = fmt::format("dim {} `{}`: {}", dim, names[dim],
                         decided[dim] == kNoRule ? "no rule applies" : place_of(s, decided[dim]));
    lines.push_back(std::move(line));
    for (const SkippedRule& other : skipped) {
      if (other.dim == dim && other.taken_by != dim)
        lines.push_back(
            fmt::format("  not {}: one of its axes already shards dim {}", place_of(s, other.rule), other.taken_by));
    }
  }
  return lines;
}

std::string init_line(const Session& s, const ParamInit& init) {
  const Compilation& c = s.compilation;
  if (init.distribution == kNone) return "unspecified: its module's kind has no default";
  const std::string what = to_text(c.plan_result.init.distributions[init.distribution]);
  if (init.entry == kNone) return what + ", the default of its module's kind";
  const ModulePattern& pattern = c.plan.init[init.entry].pattern;
  return fmt::format("{} by `{}` ({}:{})", what, pattern.text, s.plan.name,
                     line_column(s.plan, pattern.span.offset).line);
}

std::string fsdp_line(const Compilation& c, ParamId id) {
  const FsdpSettings& fsdp = *c.plan.fsdp;
  const std::string& axis = axis_name(c.plan.mesh, fsdp.axis);
  const uint64_t elements = elements_of(shape_of(c.graph, c.graph.params[id]));
  switch (c.plan_result.shardings.params[id].fsdp) {
    case FsdpDecision::Sharded: {
      const PartitionSpec& spec = sharding_of(c.plan_result.shardings, id).spec;
      for (size_t dim = 0; dim < spec.size(); ++dim) {
        if (std::find(spec[dim].begin(), spec[dim].end(), fsdp.axis) != spec[dim].end())
          return fmt::format("shards dim {} over {}", dim, axis);
      }
      return "";
    }
    case FsdpDecision::AlreadyOnAxis:
      return fmt::format("not sharded: {} already shards it", axis);
    case FsdpDecision::TooSmall:
      return fmt::format("not sharded: {} elements do not exceed min_weight_size {}", elements, fsdp.min_weight_size);
    case FsdpDecision::NoDim:
      return fmt::format("not sharded: no unsharded dim is divisible by {} ({})", axis,
                         c.plan.mesh.axes[fsdp.axis].size);
    case FsdpDecision::NotSelected:
      return "not sharded: no pattern in `fsdp.patterns` matches it";
    case FsdpDecision::NotRequested:
      return "same as the tensor that it is tied to";
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
  const ParamMatch& match = c.plan_result.matches.params[id];
  if (match.dims == kNone) {
    const bool is_unnamed = c.plan.dialect->targets == KeyTargets::Dims;
    line("match", is_unnamed ? "its dims have no logical names: replicated by default" : match_line(s, match));
  } else {
    for (const std::string& of_dim : dim_lines(s, param)) line("match", of_dim);
  }
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    const DimAxes& axes = layout.sharding.spec[dim];
    if (axes.empty()) continue;
    const int64_t shards = shard_count(axes, mesh);
    line("legal", fmt::format("dim {} of size {} over {}: {}", dim, shape[dim], axes_size_text(axes, mesh),
                              shards == 1                ? "not sharded, its axes have size 1"
                              : shape[dim] % shards == 0 ? fmt::format("local size {}", shape[dim] / shards)
                                                         : "uneven, local sizes as in torch.chunk"));
  }
  if (c.plan_result.shardings.params[id].reason == Reason::Tied)
    line("tied", "tied to a parameter that has a rule, and sharded like it");
  if (c.plan.fsdp) line("fsdp", fsdp_line(c, id));
  line("spec", fmt::format("{}, placements {}", to_text(layout.sharding.spec, mesh),
                           layout.placements ? to_text(*layout.placements) : "none (unequal segments)"));
  for (const DimSegments& segments : layout.sharding.segments)
    line("segments", fmt::format("dim {}: {}, each sharded separately", segments.dim, shape_text(segments.sizes)));
  line("rank 0", shape_text(layout.local_shapes[0]));
  line("replicas", std::to_string(layout.replicas));
  line("gradient", layout.grad_reduce.empty() ? "no reduction" : to_text(layout.grad_reduce, mesh));
  line("init", init_line(s, c.plan_result.init.params[id]));
  return text;
}

std::string layouts_text(const std::optional<std::vector<Placement>>& layouts) {
  return layouts ? to_text(*layouts) : "unchanged";
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
    text += sent_dtypes_text(value.forward_dtype, value.backward_dtype, "; ") + '\n';
  }
  return text;
}

// Returns the collectives that DTensor adds to operations of a module.
std::string explain_hidden_calls(const Compilation& c, std::string_view path) {
  std::string text;
  for (const CollectiveCall& call : c.plan_result.forecast.calls) {
    if (call.hidden && call.module == path)
      text += fmt::format("  hidden  {} over {} of {} {} in the {} of `{}`: DTensor redistributes it, no rule does\n",
                          to_text(call.kind), axis_name(c.plan.mesh, call.axis), shape_text(call.shape), call.dtype,
                          call.backward ? "backward" : "forward", call.operation.empty() ? "loss" : call.operation);
  }
  return text;
}

// Explains a module: its boundaries, the hidden collectives in it, then each of its direct parameters.
std::string explain_module(const Session& s, ModuleId id) {
  const Compilation& c = s.compilation;
  const Module& module = c.graph.modules[id];
  std::string text = fmt::format("{}  {} ({})\n", module.path.empty() ? "<root>" : module.path,
                                 type_of(c.graph, module).empty() ? "a plain container" : type_of(c.graph, module),
                                 to_text(module.kind));
  for (const ModuleBoundary& at : c.plan_result.boundaries.modules) {
    if (at.module != id) continue;
    const ModuleLayout& boundary = c.manifest.module_layouts[at.layout];
    const PlanRule& rule = c.plan.rules[boundary.rule];
    text += fmt::format("  boundary  `{}` ({}:{}), {}\n", rule.key, s.plan.name, rule.line, boundary.style);
    text += explain_values("  input", boundary.inputs, c.plan.mesh) +
            explain_values("  output", boundary.outputs, c.plan.mesh);
  }
  text += explain_hidden_calls(c, module.path);
  for (ParamId param = module.first_param; param < module.first_param + module.param_count; ++param)
    text += explain_param(s, param);
  return text;
}

// Explains the rules with this key: the number of parameters of each rule, and its first parameter in full.
std::string explain_rules(const Session& s, std::string_view key) {
  const Compilation& c = s.compilation;
  std::string text;
  for (RuleId id = 0; id < c.plan.rules.size(); ++id) {
    const PlanRule& rule = c.plan.rules[id];
    if (rule.key != key) continue;
    const RuleMatches& matches = c.plan_result.matches.rules[id];
    text += fmt::format("rule `{}` ({}:{}), {}: matches {}, applies to {}\n", rule.key, s.plan.name, rule.line,
                        rule_value_text(rule, c.plan.mesh), counted(matches.parameters, "parameter"), matches.governed);
    const auto& params = c.plan_result.matches.params;
    const auto first = std::find_if(params.begin(), params.end(), [&](const ParamMatch& m) {
      if (m.dims == kNone) return m.rule == id;
      const auto dims = std::span(c.plan_result.matches.dim_rules)
                            .subspan(m.dims, c.graph.params[static_cast<size_t>(&m - params.data())].ndim);
      return std::find(dims.begin(), dims.end(), id) != dims.end();
    });
    if (first != params.end()) text += explain_param(s, static_cast<ParamId>(first - params.begin()));
  }
  return text;
}

// Explains the parameters whose path or module path matches a glob. Parameters with the same explanation share a line.
std::string explain_glob(const Session& s, const std::string& glob) {
  const Compilation& c = s.compilation;
  const PatternSetPtr set = compile_globs(std::span(&glob, 1));
  struct ParamGroup {
    std::string path, explanation;
    uint64_t count = 0;
  };
  std::vector<ParamGroup> groups;
  TextMap<std::string, size_t> places;
  for (ParamId id = 0; id < c.graph.params.size(); ++id) {
    const std::string path = path_of(c.graph, c.graph.params[id]);
    if (!matches_any(*set, path) && !matches_any(*set, c.graph.modules[c.graph.params[id].module].path)) continue;
    const ParamLayout& layout = layout_of(c.manifest, c.manifest.parameters[id]);
    std::string explanation =
        fmt::format("    {} {}\n    {}\n", shape_text(shape_of(c.graph, c.graph.params[id])),
                    to_text(layout.sharding.spec, c.plan.mesh), match_line(s, c.plan_result.matches.params[id]));
    const auto [place, is_new] = places.try_emplace(explanation, groups.size());
    if (is_new) groups.push_back({path, std::move(explanation), 0});
    ++groups[place->second].count;
  }
  std::string text;
  for (const ParamGroup& row : groups)
    text += fmt::format("{}{}\n{}", row.path, row.count > 1 ? fmt::format(" and {} more", row.count - 1) : "",
                        row.explanation);
  return text;
}

// Explains a rule's key or a pattern; empty if the text is neither or matches nothing.
std::string explain_matches(const Session& s, const std::string& text) {
  std::string explanation = explain_rules(s, text);
  return explanation.empty() && is_glob(text) ? explain_glob(s, text) : explanation;
}

}  // namespace

int cmd_explain(const ExplainArguments& arguments, const CommonArguments& common) {
  if (arguments.words.size() == 1) return explain_word(arguments.words[0], common);
  if (arguments.words.size() != 3)
    return usage_error("explain expects MODEL PLAN PATH, or one word: the code or name of a diagnostic, or a style");
  Session session;
  run_session(session, {.model = arguments.words[0], .plan = arguments.words[1], .mesh = arguments.mesh},
              Phase::Manifest, common);
  if (session.usage) return kExitUsage;
  const int status = exit_status(session.diagnostics);
  if (status != kExitFine) {
    print_diagnostics(STDERR_FILENO, session.diagnostics, sources_of(session), common.color);
    return status;
  }
  const ModelGraph& graph = session.compilation.graph;
  const std::string& path = arguments.words[2];
  const ParamId param = find_param(graph, path);
  const ModuleId module = find_module(graph, path);
  if (param == kNone && module == kNone) {
    if (find_buffer(graph, path) != kNone)
      return printed(fmt::format("{}  is a buffer: replicated on every rank\n", escape_for_terminal(path)), common);
    if (const std::string text = explain_matches(session, path); !text.empty()) return printed(text, common);
    PathHints hints{.graph = graph};
    const std::string help = nearest_path_help(hints, {.key = path});
    return usage_error(fmt::format("the model has no parameter or module `{}`{}", escape_for_terminal(path),
                                   help.empty() ? "" : ": " + help));
  }
  const std::string text = param != kNone ? explain_param(session, param) : explain_module(session, module);
  return printed(text, common);
}

}  // namespace tpplan
