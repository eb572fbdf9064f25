#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "manifest/manifest_sections.h"

namespace tpplan {

namespace {

// Why a parameter or buffer is cut as it is, and whether a rule made it so.
constexpr std::pair<std::string_view, bool> kReasons[] = {
    {"default", false}, {"fsdp", false}, {"rule", true}, {"rule+fsdp", true}, {"tied", true}};

// `style` is the text of the first that stands under the rule, empty before.
bool is_of_rule(std::string_view& known, std::string_view style) {
  if (known.empty()) known = style;
  return known == style;
}

// Who sums a gradient: of a model axis the module, over data axes what runs the plan.
bool is_summed_by(const Manifest& manifest, const GradReduce& reduce, bool is_data) {
  const bool is_fsdp = manifest.fsdp && manifest.fsdp->axis == reduce.axis;
  switch (reduce.by) {
    case GradSummer::Unknown:
      return true;  // written before
    case GradSummer::Module:
      return !is_data;
    case GradSummer::Tpplan:
      return is_data;
    case GradSummer::Fsdp:
      return is_data && is_fsdp;
    case GradSummer::Ddp:
      return is_data && !is_fsdp;
  }
  return false;
}

}  // namespace

// A rule has one style, which all that stands under it bears, and who says that a rule made it names one.
bool prove_rules(ManifestReader& reader) {
  const Manifest& manifest = reader.manifest;
  std::vector<std::string_view> styles(manifest.rules.size());
  for (size_t i = 0; i < manifest.layouts.size(); ++i) {
    const ParamLayout& layout = manifest.layouts[i];
    const auto* const reason = std::ranges::find(kReasons, layout.reason, &std::pair<std::string_view, bool>::first);
    const bool has_rule = layout.rule != kNoManifestRule;
    const bool may_be = reason == std::end(kReasons) || has_rule == reason->second;
    if (!may_be || has_rule == layout.style.empty() || (has_rule && !is_of_rule(styles[layout.rule], layout.style)))
      return fault(reader, Code::TP7002, reader.layout_spans[i],
                   fmt::format("rule, style `{}` and reason `{}` do not fit each other", layout.style, layout.reason));
  }
  for (const ModuleLayout& layout : manifest.module_layouts) {
    if (is_of_rule(styles[layout.rule], layout.style)) continue;
    return fault(reader, Code::TP7002, reader.rule_spans[layout.rule],
                 fmt::format("`{}` and `{}` both stand under the rule `{}`, which has one style", layout.style,
                             styles[layout.rule], manifest.rules[layout.rule].key));
  }
  return true;
}

bool prove_boundaries(ManifestReader& reader) {
  const Manifest& manifest = reader.manifest;
  std::vector<uint64_t> modules(manifest.rules.size());
  for (const ManifestModule& module : manifest.modules) ++modules[layout_of(manifest, module).rule];
  for (size_t i = 0; i < modules.size(); ++i) {
    const ManifestRule& rule = manifest.rules[i];
    if (!rule.modules && !reader.digest.empty())
      return fault(reader, Code::TP7001, reader.rule_spans[i],
                   fmt::format("the rule `{}` does not say at how many modules it stands", rule.key));
    if (!rule.modules || *rule.modules == modules[i]) continue;
    return fault(reader, Code::TP7002, reader.rule_spans[i],
                 fmt::format("the rule `{}` stands at the boundaries of {} modules, and `modules` has {} of them",
                             rule.key, *rule.modules, modules[i]));
  }
  return true;
}

// What a value sends goes in its rule's type, and nothing else has one; a rule names a type that something goes in.
// Token ids, which have no gradient, stay ids.
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
    return fault(reader, Code::TP7002, reader.rule_spans[layout.rule],
                 fmt::format("a module under the rule `{}` does not send what it moves in the types that the rule says",
                             rule.key));
  }
  for (size_t i = 0; i < used.size(); ++i) {
    const ManifestRule& rule = manifest.rules[i];
    if (rule.forward_dtype == used[i].forward_dtype && rule.backward_dtype == used[i].backward_dtype) continue;
    return fault(reader, Code::TP7002, reader.rule_spans[i],
                 fmt::format("the rule `{}` says a type that none of its modules sends anything in", rule.key));
  }
  return true;
}

namespace {

// The weight of a linear or embedding that a rule cuts as a whole, so that the rule's modules change what goes in or
// out.
bool is_cut_weight(const Manifest& manifest, const ParamLayout& layout) {
  const auto is_model_axis = [&](AxisId axis) { return !manifest.fsdp || manifest.fsdp->axis != axis; };
  return layout.rule != kNoManifestRule && layout.shape.size() == 2 && layout.sharding.segments.empty() &&
         (layout.kind == "linear" || layout.kind == "embedding") &&
         std::ranges::any_of(layout.sharding.spec,
                             [&](const DimAxes& axes) { return std::ranges::any_of(axes, is_model_axis); });
}

}  // namespace

// A module that cuts its weight says what comes in and goes out, where that stays as it is, too: a side that is not
// listed is missing. Styles that touch neither list neither.
bool prove_sides(ManifestReader& reader) {
  const Manifest& manifest = reader.manifest;
  std::vector<bool> cuts(manifest.rules.size());
  for (const ParamLayout& layout : manifest.layouts) {
    if (is_cut_weight(manifest, layout)) cuts[layout.rule] = true;
  }
  TextMap<std::string_view, uint32_t> bare;  // modules that lack a side, and their rules
  for (const ManifestModule& module : manifest.modules) {
    const ModuleLayout& layout = layout_of(manifest, module);
    if (cuts[layout.rule] && layout.inputs.empty() != layout.outputs.empty())
      bare.emplace(path_of(manifest, module), layout.rule);
  }
  if (bare.empty()) return true;
  for (const ManifestParam& param : manifest.parameters) {
    const ParamLayout& layout = layout_of(manifest, param);
    if (!is_cut_weight(manifest, layout)) continue;
    const std::string_view path = path_of(manifest, param);
    const auto module = bare.find(path.substr(0, std::min(path.find_last_of("./"), path.size())));
    if (module == bare.end() || module->second != layout.rule) continue;
    return fault(reader, Code::TP7002, reader.layout_spans[param.layout],
                 fmt::format("`{}` cuts its weight, and lists values of one of its sides alone", module->first));
  }
  return true;
}

// Over data axes every rank has a batch of its own, and a rule says over which its modules see parts of the values:
// gradients are summed there, and nowhere else, where all ranks have the whole sum.
bool prove_sums(ManifestReader& reader) {
  const Manifest& manifest = reader.manifest;
  const std::vector<AxisId> data = data_axes_of(manifest);
  const auto is_data = [&](AxisId axis) { return std::ranges::find(data, axis) != data.end(); };
  std::vector<bool> is_proven(manifest.layouts.size());
  for (const ManifestParam& param : manifest.parameters) {
    if (is_proven[param.layout]) continue;
    is_proven[param.layout] = true;
    const ParamLayout& layout = layout_of(manifest, param);
    const auto wrong = [&](std::string_view is, AxisId axis, std::string_view but) {
      return fault(reader, Code::TP7002, reader.layout_spans[param.layout],
                   fmt::format("the gradient of `{}` is {} over `{}`, and `grad_reduce` {}", path_of(manifest, param),
                               is, axis_name(manifest.mesh, axis), but));
    };
    const AxisId own = layout.rule == kNoManifestRule ? kNoAxis : manifest.rules[layout.rule].sums;
    auto sum = layout.grad_reduce.begin();
    for (AxisId axis = 0; axis < manifest.mesh.axes.size(); ++axis) {
      const bool is_here = sum != layout.grad_reduce.end() && sum->axis == axis;
      if (!is_data(axis) && axis != own) continue;
      if (is_here && sum->by == GradSummer::Unknown && !reader.digest.empty())
        return wrong("open", axis, "does not say who sums it");
      if (!is_here) return wrong("open", axis, "does not sum it there, in the order of the mesh");
      if (!is_summed_by(manifest, *sum, is_data(axis))) return wrong("open", axis, "says that somebody else sums it");
      ++sum;
    }
    if (sum != layout.grad_reduce.end()) return wrong("whole", sum->axis, "sums it there again");
  }
  return true;
}

}  // namespace tpplan
