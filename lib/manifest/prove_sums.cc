#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "manifest/manifest_sections.h"

namespace tpplan {

bool prove_boundaries(ManifestReader& reader) {
  const Manifest& manifest = reader.manifest;
  std::vector<uint64_t> modules(manifest.rules.size());
  for (const ManifestModule& module : manifest.modules) ++modules[layout_of(manifest, module).rule];
  for (size_t i = 0; i < modules.size(); ++i) {
    const ManifestRule& rule = manifest.rules[i];
    if (!rule.modules || *rule.modules == modules[i]) continue;
    return fault(reader, Code::TP7002, reader.rule_spans[i],
                 fmt::format("the rule `{}` stands at the boundaries of {} modules, and `modules` has {} of them",
                             rule.key, *rule.modules, modules[i]));
  }
  return true;
}

// Over data axes every rank has a batch of its own, and a rule says over which its modules see parts of the values.
bool prove_sums(ManifestReader& reader) {
  const Manifest& manifest = reader.manifest;
  const std::vector<AxisId> data = data_axes_of(manifest);
  std::vector<bool> is_proven(manifest.layouts.size());
  for (const ManifestParam& param : manifest.parameters) {
    if (is_proven[param.layout]) continue;
    is_proven[param.layout] = true;
    const ParamLayout& layout = layout_of(manifest, param);
    std::vector<AxisId> open = data;
    if (layout.rule != kNoManifestRule && manifest.rules[layout.rule].sums != kNoAxis)
      open.push_back(manifest.rules[layout.rule].sums);
    const auto lacks = std::ranges::find_if(
        open, [&](AxisId axis) { return std::ranges::count(layout.grad_reduce, axis, &GradReduce::axis) == 0; });
    if (lacks == open.end()) continue;
    return fault(reader, Code::TP7002, reader.layout_spans[param.layout],
                 fmt::format("the gradient of `{}` is open over `{}`, and its `grad_reduce` does not sum it there",
                             path_of(manifest, param), axis_name(manifest.mesh, *lacks)));
  }
  return true;
}

}  // namespace tpplan
