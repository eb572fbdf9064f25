#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "manifest/manifest_sections.h"

namespace tpplan {
namespace {

// Reads steps as written in the file. prove_value computes their other properties.
bool read_value_steps(ManifestReader& reader, const JsonTree& tree, uint32_t at, std::vector<Step>& steps) {
  if (at == 0) return true;
  if (!expect(reader, tree.nodes[at], JsonKind::Array, "collectives")) return false;
  return for_each(tree, at, [&](uint32_t i) {
    Step& step = steps.emplace_back();
    if (!expect_only_fields(reader, tree, i, "a step", {"kind", "axis", "dim", "from_dim", "pieces"})) return false;
    const uint32_t pieces = required_field(reader, tree, i, "pieces", JsonKind::Integer);
    if (pieces == 0 || !read_collective(reader, tree, i, step.collective)) return false;
    step.pieces = tree.nodes[pieces].integer;
    return true;
  });
}

// Checks that `forward` redistributes the value between its layouts, and `backward` its gradient. Token ids have no
// gradient.
bool prove_value(ManifestReader& reader, const JsonNode& node, ManifestValue& value) {
  const auto wrong = [&](std::string_view what) {
    return report_error(reader, Code::InconsistentManifest, node,
                        fmt::format("{} does not match the layouts of the value", what));
  };
  if (!value.from || !value.to)
    return (value.forward.empty() && value.backward.empty() && !value.gradient) || wrong("a step or `gradient`");
  const Mesh& mesh = reader.manifest.mesh;
  if (value.from->size() != mesh.axes.size() || value.to->size() != mesh.axes.size())
    return report_error(reader, Code::InconsistentManifest, node,
                        "a layout has a different number of placements than the mesh has axes");
  const auto prove = [&](std::vector<Step>& written, std::span<const Placement> from, std::span<const Placement> to) {
    std::optional<std::vector<Step>> steps = steps_between(from, to, mesh);
    const bool same = steps && std::ranges::equal(written, *steps, [](const Step& a, const Step& b) {
                        return a.collective == b.collective && a.pieces == b.pieces;
                      });
    if (same) written = std::move(*steps);
    return same;
  };
  if (!prove(value.forward, *value.from, *value.to)) return wrong("`forward`");
  if (!value.gradient) return value.backward.empty() || wrong("`backward` without `gradient`");
  if (!is_gradient_of(*value.gradient, *value.from, *value.to)) return wrong("`gradient`");
  return prove(value.backward, value.gradient->from, value.gradient->to) || wrong("`backward`");
}

bool read_gradient(ManifestReader& reader, const JsonTree& tree, uint32_t value,
                   std::optional<GradientLayouts>& gradient) {
  uint32_t at = 0;
  if (!optional_field(reader, tree, value, "gradient", JsonKind::Object, at)) return false;
  if (at == 0) return true;
  std::optional<std::vector<Placement>> from, to;
  if (!expect_only_fields(reader, tree, at, "`gradient`", {"from", "to"})) return false;
  const uint32_t from_at = required_field(reader, tree, at, "from", JsonKind::Array),
                 to_at = required_field(reader, tree, at, "to", JsonKind::Array);
  if (from_at == 0 || to_at == 0 || !read_placements(reader, tree, from_at, from) ||
      !read_placements(reader, tree, to_at, to))
    return false;
  gradient = {.from = std::move(*from), .to = std::move(*to)};
  return true;
}

bool read_values(ManifestReader& reader, const JsonTree& tree, std::string_view key,
                 std::vector<ManifestValue>& values) {
  const uint32_t at = required_field(reader, tree, 0, key, JsonKind::Array);
  return at != 0 && for_each(tree, at, [&](uint32_t i) {
           if (!expect(reader, tree.nodes[i], JsonKind::Object, "a boundary value")) return false;
           if (!expect_only_fields(reader, tree, i, "a boundary value",
                                   {"arg", "kwarg", "from", "to", "gradient", "use_local", "forward", "backward",
                                    "forward_dtype", "backward_dtype"}))
             return false;
           if (!has_fields(reader, tree, i, {"from", "to"})) return false;
           ManifestValue& value = values.emplace_back();
           uint32_t arg = 0, kwarg = 0, local = 0;
           if (!optional_field(reader, tree, i, "arg", JsonKind::Integer, arg) ||
               !optional_field(reader, tree, i, "kwarg", JsonKind::String, kwarg) ||
               !optional_field(reader, tree, i, "use_local", JsonKind::Bool, local)) {
             return false;
           }
           if (arg != 0 && !read_index(reader, tree.nodes[arg], value.arg)) return false;
           if (kwarg != 0) value.kwarg = tree.nodes[kwarg].text;
           if ((arg == 0) == (kwarg == 0))
             return report_error(reader, Code::InvalidManifest, tree.nodes[i],
                                 "a boundary value must have either `arg` or `kwarg`");
           if (std::ranges::count_if(values, [&](const ManifestValue& known) {
                 return known.arg == value.arg && known.kwarg == value.kwarg;
               }) != 1)
             return report_error(reader, Code::InconsistentManifest, tree.nodes[i],
                                 "the module has two values for this argument");
           if (local != 0) value.use_local = tree.nodes[local].is_true;
           const uint32_t from = find_json_field(tree, i, "from"), to = find_json_field(tree, i, "to");
           const uint32_t forward = find_json_field(tree, i, "forward"),
                          backward = find_json_field(tree, i, "backward");
           return read_placements(reader, tree, from, value.from) && read_placements(reader, tree, to, value.to) &&
                  read_gradient(reader, tree, i, value.gradient) &&
                  read_value_steps(reader, tree, forward, value.forward) &&
                  read_value_steps(reader, tree, backward, value.backward) &&
                  read_sent_dtypes(reader, tree, i, value.forward_dtype, value.backward_dtype) &&
                  prove_value(reader, tree.nodes[i], value);
         });
}

}  // namespace

bool read_module(ManifestReader& reader, const JsonTree& tree) {
  if (!expect(reader, tree.nodes[0], JsonKind::Object, "a module")) return false;
  if (!expect_only_fields(reader, tree, 0, "a module", {"path", "style", "rule", "inputs", "outputs"})) return false;
  const uint32_t path = required_field(reader, tree, 0, "path", JsonKind::String),
                 style = required_field(reader, tree, 0, "style", JsonKind::String);
  if (path == 0 || style == 0 || required_field(reader, tree, 0, "rule", JsonKind::Integer) == 0) return false;
  Manifest& manifest = reader.manifest;
  const std::string_view text = tree.nodes[path].text;
  manifest.modules.push_back({.name_begin = manifest.names.size(),
                              .name_length = static_cast<uint32_t>(text.size()),
                              .layout = static_cast<uint32_t>(manifest.module_layouts.size())});
  manifest.names += text;
  ModuleLayout& layout = manifest.module_layouts.emplace_back();
  layout.style = tree.nodes[style].text;
  if (!read_rule_index(reader, tree, 0, layout.rule)) return false;
  if (!reader.modules.insert(fmt::format("{} {}", layout.rule, text)).second)
    return report_error(reader, Code::InconsistentManifest, tree.nodes[path],
                        fmt::format("`{}` appears twice under its rule", text));
  return read_values(reader, tree, "inputs", layout.inputs) && read_values(reader, tree, "outputs", layout.outputs);
}

}  // namespace tpplan
