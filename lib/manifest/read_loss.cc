#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "manifest/manifest_sections.h"

namespace tpplan {
namespace {

template <typename Choice>
bool read_word(ManifestReader& reader, const JsonTree& tree, std::string_view key,
               std::span<const std::string_view> names, Choice& choice) {
  const uint32_t at = required_field(reader, tree, 0, key, JsonKind::String);
  if (at == 0) return false;
  const auto found = std::find(names.begin(), names.end(), tree.nodes[at].text);
  if (found == names.end())
    return report_error(reader, Code::InvalidManifest, tree.nodes[at], fmt::format("unknown `{}` of a loss", key));
  choice = static_cast<Choice>(found - names.begin());
  return true;
}

}  // namespace

bool read_loss(ManifestReader& reader, const JsonTree& tree) {
  if (tree.nodes[0].kind == JsonKind::Null) return true;
  if (!expect(reader, tree.nodes[0], JsonKind::Object, "`loss`")) return false;
  if (!expect_only_fields(reader, tree, 0, "`loss`", {"output", "reduction", "count", "axes", "gradients"}))
    return false;
  Loss& loss = reader.manifest.loss.emplace();
  const uint32_t output = required_field(reader, tree, 0, "output", JsonKind::Integer),
                 axes = required_field(reader, tree, 0, "axes", JsonKind::Array);
  if (output == 0 || axes == 0 || !read_index(reader, tree.nodes[output], loss.output)) return false;
  if (!read_word(reader, tree, "reduction", kReductionNames, loss.reduction) ||
      !read_word(reader, tree, "count", kTermCountNames, loss.count) ||
      !read_word(reader, tree, "gradients", kReductionNames, loss.gradients))
    return false;
  return for_each(tree, axes, [&](uint32_t i) {
    AxisId axis = kNoAxis;
    if (!read_axis(reader, tree.nodes[i], axis)) return false;
    if (is_loss_axis(loss, axis))
      return report_error(reader, Code::InconsistentManifest, tree.nodes[i], "the axis is named twice");
    loss.axes.push_back(axis);
    return true;
  });
}

}  // namespace tpplan
