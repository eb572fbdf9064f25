#include "resolve/infer/style_dim.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <span>

#include "model/module_kinds.h"
#include "model/name_subject.h"

namespace tpplan {

void report_unsupported(const InferenceInput& in, const ParamMatch& match, const Module& module, std::string message,
                        std::string help) {
  const PlanRule& rule = in.plan.rules[match.rule];
  Diagnostic* d =
      report(in.diagnostics, Code::UnsupportedModule, rule.value_span, fmt::format("{}/{}", match.rule, module.type));
  if (d == nullptr) return;
  name_subject(*d, module);
  d->message = std::move(message);
  d->counted = "parameter";
  d->help = std::move(help);
  if (in.plan.dialect->runtime == PlanRuntime::Torch) d->fails = FirstFailure::Apply;
  d->notes.push_back({fmt::format("`{}` is {} ({})", module.path, type_of(in.graph, module), to_text(module.kind)),
                      span_of(in.graph, module)});
}

bool check_boundary_module(const InferenceInput& in, const MatchTable& matches, const BoundaryMatch& match) {
  const StyleRow& style = *in.plan.rules[match.rule].style;
  if (style.modules != StyleModules::LinearOrEmbedding) return true;
  const Module& module = in.graph.modules[match.module];
  const auto params = std::span(matches.params).subspan(module.first_param, module.param_count);
  const bool names_params = std::any_of(params.begin(), params.end(),
                                        [&](const ParamMatch& p) { return p.rule == match.rule && p.by_module; });
  return names_params || in.plan.dialect->supports_module(in, {.rule = match.rule, .by_module = true}, module);
}

}  // namespace tpplan
