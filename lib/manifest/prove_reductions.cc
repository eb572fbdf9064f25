#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "manifest/manifest_sections.h"

namespace tpplan {

namespace {

// Reasons of a parameter's sharding, and whether each requires a rule.
constexpr std::pair<std::string_view, bool> kReasons[] = {
    {"default", false}, {"fsdp", false}, {"rule", true}, {"rule+fsdp", true}, {"tied", true}};

// True if `style` is the style of the rule. `known` is the rule's style, set by the first call.
bool is_of_rule(std::string_view& known, std::string_view style) {
  if (known.empty()) known = style;
  return known == style;
}

// True if the right component reduces the gradient: the module over a model axis, the runtime over data axes.
bool is_summed_by(const Manifest& manifest, const GradReduce& reduce, bool is_data) {
  const bool is_fsdp = manifest.fsdp && manifest.fsdp->axis == reduce.axis;
  switch (reduce.by) {
    case GradReducer::Module:
      return !is_data;
    case GradReducer::Tpplan:
      return is_data;
    case GradReducer::Fsdp:
      return is_data && is_fsdp;
    case GradReducer::Ddp:
      return is_data && !is_fsdp;
  }
  return false;
}

}  // namespace

// Checks that all parameters and modules of a rule have one style, and that rule, style and reason agree.
bool prove_rules(ManifestReader& reader) {
  const Manifest& manifest = reader.manifest;
  std::vector<std::string_view> styles(manifest.rules.size());
  for (size_t i = 0; i < manifest.layouts.size(); ++i) {
    const ParamLayout& layout = manifest.layouts[i];
    const auto* const reason = std::ranges::find(kReasons, layout.reason, &std::pair<std::string_view, bool>::first);
    const bool has_rule = layout.rule != kNoManifestRule;
    const bool may_be = reason == std::end(kReasons) || has_rule == reason->second;
    if (!may_be || has_rule == layout.style.empty() || (has_rule && !is_of_rule(styles[layout.rule], layout.style)))
      return report_error(reader, Code::InconsistentManifest, reader.layout_spans[i],
                          fmt::format("rule, style `{}` and reason `{}` do not match", layout.style, layout.reason));
  }
  for (const ModuleLayout& layout : manifest.module_layouts) {
    if (is_of_rule(styles[layout.rule], layout.style)) continue;
    return report_error(reader, Code::InconsistentManifest, reader.rule_spans[layout.rule],
                        fmt::format("styles `{}` and `{}` both belong to the rule `{}`, which has one style",
                                    layout.style, styles[layout.rule], manifest.rules[layout.rule].key));
  }
  return true;
}

bool prove_boundaries(ManifestReader& reader) {
  const Manifest& manifest = reader.manifest;
  std::vector<uint64_t> modules(manifest.rules.size());
  for (const ManifestModule& module : manifest.modules) ++modules[layout_of(manifest, module).rule];
  for (size_t i = 0; i < modules.size(); ++i) {
    const ManifestRule& rule = manifest.rules[i];
    if (rule.modules == modules[i]) continue;
    return report_error(reader, Code::InconsistentManifest, reader.rule_spans[i],
                        fmt::format("the rule `{}` is at the boundaries of {} modules, but `modules` lists {}",
                                    rule.key, rule.modules, modules[i]));
  }
  return true;
}

// Checks the dtypes of communication: a value has its rule's dtype exactly if it communicates, and a rule has a dtype
// only if a value uses it.
bool prove_sent_dtypes(ManifestReader& reader) {
  const Manifest& manifest = reader.manifest;
  const auto is_sent_in = [](std::optional<DType> own, const std::vector<Step>& steps, std::optional<DType> rule) {
    return own == (communicates(steps) ? rule : std::nullopt);
  };
  std::vector<ManifestRule> used(manifest.rules.size());
  for (const ModuleLayout& layout : manifest.module_layouts) {
    const ManifestRule& rule = manifest.rules[layout.rule];
    const auto fits = [&](const ManifestValue& value) {
      if (!value.gradient) return !value.forward_dtype && !value.backward_dtype;
      if (value.forward_dtype) used[layout.rule].forward_dtype = value.forward_dtype;
      if (value.backward_dtype) used[layout.rule].backward_dtype = value.backward_dtype;
      return is_sent_in(value.forward_dtype, value.forward, rule.forward_dtype) &&
             is_sent_in(value.backward_dtype, value.backward, rule.backward_dtype);
    };
    if (std::ranges::all_of(layout.inputs, fits) && std::ranges::all_of(layout.outputs, fits)) continue;
    return report_error(
        reader, Code::InconsistentManifest, reader.rule_spans[layout.rule],
        fmt::format("a module of the rule `{}` sends values in other dtypes than the rule specifies", rule.key));
  }
  for (size_t i = 0; i < used.size(); ++i) {
    const ManifestRule& rule = manifest.rules[i];
    if (rule.forward_dtype == used[i].forward_dtype && rule.backward_dtype == used[i].backward_dtype) continue;
    return report_error(reader, Code::InconsistentManifest, reader.rule_spans[i],
                        fmt::format("the rule `{}` specifies a dtype that none of its modules sends", rule.key));
  }
  return true;
}

namespace {

// True if a rule shards the 2-D weight of a linear or embedding over a model axis, without segments. The rule's modules
// then convert their inputs or outputs.
bool is_sharded_weight(const Manifest& manifest, const ParamLayout& layout) {
  const auto is_model_axis = [&](AxisId axis) { return !manifest.fsdp || manifest.fsdp->axis != axis; };
  return layout.rule != kNoManifestRule && layout.shape.size() == 2 && layout.sharding.segments.empty() &&
         (layout.kind == "linear" || layout.kind == "embedding") &&
         std::ranges::any_of(layout.sharding.spec,
                             [&](const DimAxes& axes) { return std::ranges::any_of(axes, is_model_axis); });
}

}  // namespace

// Checks that a module with a sharded weight lists both inputs and outputs, unchanged ones too. Styles that convert
// neither list neither.
bool prove_both_boundaries(ManifestReader& reader) {
  const Manifest& manifest = reader.manifest;
  std::vector<bool> cuts(manifest.rules.size());
  for (const ParamLayout& layout : manifest.layouts) {
    if (is_sharded_weight(manifest, layout)) cuts[layout.rule] = true;
  }
  TextMap<std::string_view, uint32_t> bare;  // modules that list only one side, and their rules
  for (const ManifestModule& module : manifest.modules) {
    const ModuleLayout& layout = layout_of(manifest, module);
    if (cuts[layout.rule] && layout.inputs.empty() != layout.outputs.empty())
      bare.emplace(path_of(manifest, module), layout.rule);
  }
  if (bare.empty()) return true;
  for (const ManifestParam& param : manifest.parameters) {
    const ParamLayout& layout = layout_of(manifest, param);
    if (!is_sharded_weight(manifest, layout)) continue;
    const std::string_view path = path_of(manifest, param);
    const auto module = bare.find(path.substr(0, std::min(path.find_last_of("./"), path.size())));
    if (module == bare.end() || module->second != layout.rule) continue;
    return report_error(reader, Code::InconsistentManifest, reader.layout_spans[param.layout],
                        fmt::format("`{}` shards its weight, but lists values of only one side", module->first));
  }
  return true;
}

// Checks that each gradient is reduced over all data axes and over the `sums` axis of its rule, and over no other axis:
// elsewhere all ranks already have the full gradient.
bool prove_reductions(ManifestReader& reader) {
  const Manifest& manifest = reader.manifest;
  const std::vector<AxisId> data = data_axes_of(manifest);
  const auto is_data = [&](AxisId axis) { return std::ranges::find(data, axis) != data.end(); };
  std::vector<bool> is_proven(manifest.layouts.size());
  for (const ManifestParam& param : manifest.parameters) {
    if (is_proven[param.layout]) continue;
    is_proven[param.layout] = true;
    const ParamLayout& layout = layout_of(manifest, param);
    const auto wrong = [&](std::string_view is, AxisId axis, std::string_view but) {
      return report_error(reader, Code::InconsistentManifest, reader.layout_spans[param.layout],
                          fmt::format("the gradient of `{}` is {} over `{}`, but `grad_reduce` {}",
                                      path_of(manifest, param), is, axis_name(manifest.mesh, axis), but));
    };
    const AxisId own = layout.rule == kNoManifestRule ? kNoAxis : manifest.rules[layout.rule].sums;
    auto sum = layout.grad_reduce.begin();
    for (AxisId axis = 0; axis < manifest.mesh.axes.size(); ++axis) {
      const bool is_here = sum != layout.grad_reduce.end() && sum->axis == axis;
      if (!is_data(axis) && axis != own) continue;
      if (!is_here) return wrong("partial", axis, "does not reduce it there, in mesh order");
      if (!is_summed_by(manifest, *sum, is_data(axis))) return wrong("partial", axis, "names another reducer");
      ++sum;
    }
    if (sum != layout.grad_reduce.end()) return wrong("full", sum->axis, "reduces it there again");
  }
  return true;
}

}  // namespace tpplan
