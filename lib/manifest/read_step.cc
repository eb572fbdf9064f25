#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "manifest/manifest_sections.h"

namespace tpplan {
namespace {

bool read_step_size(ManifestReader& reader, const JsonTree& tree, std::string_view key, int64_t& size) {
  uint32_t at = 0;
  if (!optional_field(reader, tree, 0, key, JsonKind::Integer, at)) return false;
  if (at == 0) return true;
  size = tree.nodes[at].integer;
  return size >= 1 || report_error(reader, Code::InconsistentManifest, tree.nodes[at],
                                   fmt::format("`{}` of a step must be 1 or more", key));
}

}  // namespace

bool read_step(ManifestReader& reader, const JsonTree& tree) {
  if (!expect(reader, tree.nodes[0], JsonKind::Object, "`step`")) return false;
  if (!expect_only_fields(reader, tree, 0, "`step`", {"batch", "sequence", "unlisted"})) return false;
  ManifestStep& step = reader.manifest.step;
  const uint32_t unlisted = required_field(reader, tree, 0, "unlisted", JsonKind::Array);
  if (unlisted == 0 || !read_step_size(reader, tree, "batch", step.batch) ||
      !read_step_size(reader, tree, "sequence", step.sequence))
    return false;
  reader.step_span = value_span(reader.file, tree.nodes[0]);
  return for_each(tree, unlisted, [&](uint32_t i) {
    AxisId axis = kNoAxis;
    if (!read_axis(reader, tree.nodes[i], axis)) return false;
    if (std::ranges::find(step.unlisted, axis) != step.unlisted.end())
      return report_error(reader, Code::InconsistentManifest, tree.nodes[i], "the axis is named twice");
    step.unlisted.push_back(axis);
    return true;
  });
}

// Checks that `unlisted` has only data axes without listed calls. Runs at the end, because `data` and `fsdp` may follow
// `step` in the file.
bool prove_step(ManifestReader& reader) {
  const Manifest& manifest = reader.manifest;
  const std::vector<AxisId> data = data_axes_of(manifest);
  for (const AxisId axis : manifest.step.unlisted) {
    const auto is_it = [axis](const CollectiveCall& call) { return call.axis == axis; };
    if (std::ranges::find(data, axis) == data.end())
      return report_error(reader, Code::InconsistentManifest, reader.step_span,
                          fmt::format("`unlisted` names {}, but only the axes of `data` and `fsdp` shard batches",
                                      axis_name(manifest.mesh, axis)));
    if (std::ranges::any_of(manifest.collectives, is_it))
      return report_error(
          reader, Code::InconsistentManifest, reader.step_span,
          fmt::format("`unlisted` names {}, but `collectives` lists calls over it", axis_name(manifest.mesh, axis)));
  }
  return true;
}

}  // namespace tpplan
