#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "manifest/manifest_sections.h"

namespace tpplan {
namespace {

bool read_step_size(ManifestReader& reader, const JsonTree& tree, std::string_view key, int64_t& size) {
  uint32_t at = 0;
  if (!optional_member(reader, tree, 0, key, JsonKind::Integer, at)) return false;
  if (at == 0) return true;
  size = tree.nodes[at].integer;
  return size >= 1 || fault(reader, Code::TP7002, tree.nodes[at], fmt::format("`{}` of a step is 1 or more", key));
}

}  // namespace

bool read_step(ManifestReader& reader, const JsonTree& tree) {
  if (!expect(reader, tree.nodes[0], JsonKind::Object, "`step`")) return false;
  if (!only(reader, tree, 0, "`step`", {"batch", "sequence", "unlisted"})) return false;
  ManifestStep& step = reader.manifest.step;
  const uint32_t unlisted = member(reader, tree, 0, "unlisted", JsonKind::Array);
  if (unlisted == 0 || !read_step_size(reader, tree, "batch", step.batch) ||
      !read_step_size(reader, tree, "sequence", step.sequence))
    return false;
  reader.step_span = value_span(reader.file, tree.nodes[0]);
  return for_each(tree, unlisted, [&](uint32_t i) {
    AxisId axis = kNoAxis;
    if (!read_axis(reader, tree.nodes[i], axis)) return false;
    if (std::ranges::find(step.unlisted, axis) != step.unlisted.end())
      return fault(reader, Code::TP7002, tree.nodes[i], "the axis is named twice");
    step.unlisted.push_back(axis);
    return true;
  });
}

// When all is read: `data` and `fsdp`, which say over what batches are cut, may stand behind `step`.
bool prove_step(ManifestReader& reader) {
  const Manifest& manifest = reader.manifest;
  const std::vector<AxisId> data = data_axes_of(manifest);
  for (const AxisId axis : manifest.step.unlisted) {
    const auto is_it = [axis](const CollectiveCall& call) { return call.axis == axis; };
    if (std::ranges::find(data, axis) == data.end())
      return fault(reader, Code::TP7002, reader.step_span,
                   fmt::format("`unlisted` names {}, and batches are cut over `data` and `fsdp` only",
                               axis_name(manifest.mesh, axis)));
    if (std::ranges::any_of(manifest.collectives, is_it))
      return fault(
          reader, Code::TP7002, reader.step_span,
          fmt::format("`unlisted` names {}, and `collectives` lists calls over it", axis_name(manifest.mesh, axis)));
  }
  return true;
}

}  // namespace tpplan
