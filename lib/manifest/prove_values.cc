#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "manifest/manifest_sections.h"
#include "manifest/rule_facts.h"

namespace tpplan {
namespace {

std::vector<RuleValue> facts_of(const std::vector<ManifestValue>& values) {
  std::vector<RuleValue> facts;
  for (const ManifestValue& value : values)
    facts.push_back({.arg = value.arg, .kwarg = value.kwarg, .use_local = value.use_local});
  return facts;
}

// Returns an axis other than the rule's over which the layout differs from the batch's sharding, or kNoAxis.
AxisId foreign_axis(const Manifest& manifest, AxisId own, const std::vector<Placement>& layout) {
  for (size_t i = 0; i < layout.size(); ++i) {
    const auto axis = static_cast<AxisId>(i);
    const bool is_data = manifest.data && std::ranges::find(manifest.data->axes, axis) != manifest.data->axes.end();
    const Placement expected =
        is_data ? Placement{.kind = PlacementKind::Shard, .dim = manifest.data->dim} : Placement{};
    if (axis != own && layout[i] != expected) return axis;
  }
  return kNoAxis;
}

// Checks that a value and its gradient follow the batch's sharding on all axes except the rule's.
bool prove_axes(ManifestReader& reader, const ManifestModule& module, const ManifestValue& value) {
  const Manifest& manifest = reader.manifest;
  const ManifestRule& rule = manifest.rules[layout_of(manifest, module).rule];
  std::vector<const std::vector<Placement>*> layouts;
  if (value.from) layouts.push_back(&*value.from);
  if (value.to) layouts.push_back(&*value.to);
  if (value.gradient) layouts.insert(layouts.end(), {&value.gradient->from, &value.gradient->to});
  for (const std::vector<Placement>* layout : layouts) {
    const AxisId axis = foreign_axis(manifest, rule.boundary->axis, *layout);
    if (axis == kNoAxis) continue;
    return report_error(
        reader, Code::InconsistentManifest, reader.rule_spans[layout_of(manifest, module).rule],
        fmt::format(
            "a value of `{}` is {} over `{}`, but `data` does not shard the batch so, and its rule applies over `{}`",
            path_of(manifest, module), to_text((*layout)[axis]), axis_name(manifest.mesh, axis),
            axis_name(manifest.mesh, rule.boundary->axis)));
  }
  return true;
}

bool prove_side(ManifestReader& reader, const ManifestModule& module, std::string_view side,
                const std::vector<ManifestValue>& values, const std::vector<RuleValue>& said) {
  const Manifest& manifest = reader.manifest;
  const uint32_t rule = layout_of(manifest, module).rule;
  if (const std::vector<RuleValue> found = facts_of(values); found != said)
    return report_error(reader, Code::InconsistentManifest, reader.rule_spans[rule],
                        fmt::format("`{}` has {}, but its rule `{}` specifies {}", path_of(manifest, module),
                                    to_text(found, side), manifest.rules[rule].key, to_text(said, side)));
  return std::ranges::all_of(values, [&](const ManifestValue& value) { return prove_axes(reader, module, value); });
}

}  // namespace

bool prove_values(ManifestReader& reader) {
  const Manifest& manifest = reader.manifest;
  for (const ManifestModule& module : manifest.modules) {
    const ModuleLayout& layout = layout_of(manifest, module);
    const ManifestRule& rule = manifest.rules[layout.rule];
    // A style that replicates everything may have no axis. Its rule has no boundary, and its modules list no values.
    if (!rule.boundary && layout.inputs.empty() && layout.outputs.empty()) continue;
    if (!rule.boundary)
      return report_error(reader, Code::InvalidManifest, reader.rule_spans[layout.rule],
                          fmt::format("the rule `{}` does not specify the boundary of its modules", rule.key));
    const RuleBoundary& said = *rule.boundary;
    if (!prove_side(reader, module, "input", layout.inputs, said.inputs) ||
        !prove_side(reader, module, "output", layout.outputs, said.outputs))
      return false;
  }
  return true;
}

bool prove_rule_counts(ManifestReader& reader) {
  const Manifest& manifest = reader.manifest;
  const std::vector<KindCounts> held = count_module_kinds(manifest);
  const std::vector<uint64_t> bare = count_empty_modules(manifest, paths_of(manifest));
  for (uint32_t i = 0; i < manifest.rules.size(); ++i) {
    const ManifestRule& rule = manifest.rules[i];
    for (const auto& [kind, count] : kHeldKinds) {
      if (held[i].*count == rule.holds.*count) continue;
      return report_error(reader, Code::InconsistentManifest, reader.rule_spans[i],
                          fmt::format("the rule `{}` declares {} parameters of kind {}, but has {}", rule.key,
                                      rule.holds.*count, kind, held[i].*count));
    }
    if (rule.boundary && rule.boundary->bare != bare[i])
      return report_error(
          reader, Code::InconsistentManifest, reader.rule_spans[i],
          fmt::format("{} modules of the rule `{}` have no parameter in or below them, but the rule declares {}",
                      bare[i], rule.key, rule.boundary->bare));
  }
  return true;
}

}  // namespace tpplan
