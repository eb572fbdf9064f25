#include "resolve/dialects/shard_by_name.h"

#include <spdlog/fmt/fmt.h>

#include "model/module_kinds.h"
#include "model/name_subject.h"
#include "sharding/tensor_size.h"

namespace tpplan {

namespace {

bool fits_kind(const StyleRow& style, ModuleKind kind) {
  return style.modules == StyleModules::Any || style.modules == StyleModules::WithDims ||
         (kind == ModuleKind::Linear && style.modules == StyleModules::LinearOrEmbedding) ||
         kind == ModuleKind::Embedding;
}

void report_kind(const InferenceInput& in, const ParamMatch& match, const Module& module) {
  const StyleRow& style = *in.plan.rules[match.rule].style;
  report_unsupported(
      in, match, module,
      fmt::format("{} does not support `{}`, which is {}", style.name, module.path, type_of(in.graph, module)),
      style.modules == StyleModules::EmbeddingOnly
          ? "use colwise or rowwise for linear layers"
          : "remove the rule, write `replicate`, or shard it with a spec: [tp]");
}

}  // namespace

// Accepts modules of unknown kind, and experts under a style that shards a dim: shard_by_name checks their parameters
// by dim names.
bool supports_kind(const InferenceInput& in, const ParamMatch& match, const Module& module) {
  const StyleRow& style = *in.plan.rules[match.rule].style;
  const bool uses_dims =
      module.kind == ModuleKind::Other || (module.kind == ModuleKind::Experts && !style.shard_dim.empty());
  if (fits_kind(style, module.kind) || uses_dims) return true;
  report_kind(in, match, module);
  return false;
}

StyleDim shard_by_name(const InferenceInput& in, const ParamMatch& match, const Module& module, const Param& param) {
  if (match.by_module && param.ndim == 0) return {};
  const PlanRule& rule = in.plan.rules[match.rule];
  const std::span<const std::string_view> dims = dims_of(in.graph, module, param);
  const bool given = param.extras != kNone && !in.graph.extras[param.extras].dims.empty();
  if (match.by_module && module.kind == ModuleKind::Experts && !given && !fits_kind(*rule.style, module.kind)) {
    report_kind(in, match, module);
    return {StyleDimKind::Error};
  }
  // The dim table names the dim of a norm `out` too. A style shards it only if the model file declares the name.
  if (dims.empty() || (module.kind == ModuleKind::Norm && !given)) {
    if (!dims.empty()) {
      report_unsupported(in, match, module,
                         fmt::format("{} does not support `{}`, a parameter of {}", rule.style->name,
                                     path_of(in.graph, param), type_of(in.graph, module)),
                         "remove the rule, write `replicate`, or shard it with a spec: [tp]");
      return {StyleDimKind::Error};
    }
    Diagnostic* d = report(in.diagnostics, Code::UnknownDims, rule.value_span,
                           fmt::format("{}/{}/{}", match.rule, module.type, param.name));
    if (d == nullptr) return {StyleDimKind::Error};
    name_subject(*d, in.graph, param);
    d->message = fmt::format("{} shards dim `{}`, but the dims of `{}` {} have no names", rule.style->name,
                             rule.style->shard_dim, path_of(in.graph, param), shape_text(shape_of(in.graph, param)));
    d->counted = "parameter";
    d->notes.push_back({fmt::format("{} is not in the table of known module types",
                                    type_of(in.graph, module).empty() ? "its module" : type_of(in.graph, module)),
                        span_of(in.graph, param)});
    d->help =
        "name the dims in the model (\"dims\": [\"out\", \"in\"]), set the \"kind\" of the module, or write a spec";
    return {StyleDimKind::Error};
  }
  const int dim = find_dim(dims, rule.style->shard_dim);
  return dim < 0 ? StyleDim{} : StyleDim{StyleDimKind::Dim, static_cast<size_t>(dim)};
}

}  // namespace tpplan
