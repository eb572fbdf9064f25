#include "dialects/cut_by_name.h"

#include <spdlog/fmt/fmt.h>

#include "model/module_kinds.h"
#include "sharding/tensor_size.h"

namespace tpplan {

namespace {

bool fits_kind(const StyleRow& style, ModuleKind kind) {
  return style.modules == StyleModules::Any || style.modules == StyleModules::WithDims ||
         (kind == ModuleKind::Linear && style.modules == StyleModules::LinearOrEmbedding) ||
         kind == ModuleKind::Embedding;
}

void report_kind(const Inference& in, const ParamMatch& match, const Module& module) {
  const StyleRow& style = *in.plan.rules[match.rule].style;
  report_unsupported(
      in, match, module,
      fmt::format("{} does not fit `{}`, which is {}", style.name, module.path, type_of(in.graph, module)),
      style.modules == StyleModules::EmbeddingOnly
          ? "use colwise or rowwise for linear layers"
          : "leave it without a rule, write `replicate`, or shard it by a spec: [tp]");
}

}  // namespace

// Of modules of no kind the dims decide, and of experts those that the model file names: cut_by_name looks at each.
bool supports_kind(const Inference& in, const ParamMatch& match, const Module& module) {
  const StyleRow& style = *in.plan.rules[match.rule].style;
  const bool dims_decide =
      module.kind == ModuleKind::Other || (module.kind == ModuleKind::Experts && !style.cut_dim.empty());
  if (fits_kind(style, module.kind) || dims_decide) return true;
  report_kind(in, match, module);
  return false;
}

Cut cut_by_name(const Inference& in, const ParamMatch& match, const Module& module, const Param& param) {
  const PlanRule& rule = in.plan.rules[match.rule];
  const std::span<const std::string_view> dims = dims_of(in.graph, module, param);
  const bool given = param.extras != kNone && !in.graph.extras[param.extras].dims.empty();
  if (match.by_module && module.kind == ModuleKind::Experts && !given && !fits_kind(*rule.style, module.kind)) {
    report_kind(in, match, module);
    return {CutKind::Fault};
  }
  // The table calls the one dim of a norm `out` too. A style cuts it only where the model file itself has named it.
  if (dims.empty() || (module.kind == ModuleKind::Norm && !given)) {
    if (!dims.empty()) {
      report_unsupported(in, match, module,
                         fmt::format("{} does not fit `{}`, a parameter of {}", rule.style->name,
                                     path_of(in.graph, param), type_of(in.graph, module)),
                         "leave it without a rule, write `replicate`, or shard it by a spec: [tp]");
      return {CutKind::Fault};
    }
    Diagnostic* d = report(in.diagnostics, Code::TP5010, rule.value_span,
                           fmt::format("{}/{}/{}", match.rule, module.type, param.name));
    if (d == nullptr) return {CutKind::Fault};
    d->message = fmt::format("{} cuts dim `{}`, and the dims of `{}` {} have no names", rule.style->name,
                             rule.style->cut_dim, path_of(in.graph, param), shape_text(shape_of(in.graph, param)));
    d->counted = "parameter";
    d->notes.push_back({fmt::format("{} is not a type that the table knows",
                                    type_of(in.graph, module).empty() ? "its module" : type_of(in.graph, module)),
                        span_of(in.graph, param)});
    d->help = "name them in the model (\"dims\": [\"out\", \"in\"]), give the module a \"kind\", or write a spec";
    return {CutKind::Fault};
  }
  const int dim = find_dim(dims, rule.style->cut_dim);
  return dim < 0 ? Cut{} : Cut{CutKind::Dim, static_cast<size_t>(dim)};
}

}  // namespace tpplan
