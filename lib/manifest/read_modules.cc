#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "manifest/manifest_sections.h"

namespace tpplan {
namespace {

// The steps as they are written: what a step says beyond its collective follows from that.
bool read_value_steps(ManifestReader& reader, const JsonTree& tree, uint32_t at, std::vector<Step>& steps) {
  if (at == 0) return true;
  if (!expect(reader, tree.nodes[at], JsonKind::Array, "collectives")) return false;
  return for_each(tree, at, [&](uint32_t i) {
    Step& step = steps.emplace_back();
    uint32_t pieces = 0;
    if (!read_collective(reader, tree, i, step.collective) ||
        !optional_member(reader, tree, i, "pieces", JsonKind::Integer, pieces)) {
      return false;
    }
    step.pieces = pieces == 0 ? 0 : tree.nodes[pieces].integer;  // manifests that were written before lack it
    return true;
  });
}

// The steps are those that bring `from` to `to`, and its gradient back. Token ids have none.
bool prove_value(ManifestReader& reader, const JsonNode& node, ManifestValue& value) {
  const auto wrong = [&](std::string_view what) {
    return fault(reader, Code::TP7002, node, fmt::format("{} is not what the value's layouts say", what));
  };
  if (!value.from || !value.to) {
    return (value.forward.empty() && value.backward.empty()) || wrong("a step");
  }
  const Mesh& mesh = reader.manifest.mesh;
  if (value.from->size() != mesh.axes.size() || value.to->size() != mesh.axes.size())
    return fault(reader, Code::TP7002, node, "a layout has another number of placements than the mesh has axes");
  const auto prove = [&](std::vector<Step>& written, std::span<const Placement> from,
                         const std::vector<Collective>& collectives, std::span<const Placement> target) {
    std::vector<Step> steps = value_steps(from, collectives, target, mesh);
    const bool same = std::ranges::equal(written, steps, [](const Step& a, const Step& b) {
      return a.collective == b.collective && (a.pieces == 0 || a.pieces == b.pieces);
    });
    written = std::move(steps);
    return same;
  };
  const auto forward = redistribute(*value.from, *value.to);
  if (!forward || !prove(value.forward, *value.from, *forward, *value.to)) return wrong("`forward`");
  if (value.backward.empty()) return true;
  const std::vector<Placement> arriving = arriving_gradient(*value.to, value.backward);
  return prove(value.backward, arriving, redistribute_gradient(*value.from, arriving), *value.from) ||
         wrong("`backward`");
}

bool read_values(ManifestReader& reader, const JsonTree& tree, std::string_view key,
                 std::vector<ManifestValue>& values) {
  const uint32_t at = member(reader, tree, 0, key, JsonKind::Array);
  return at != 0 && for_each(tree, at, [&](uint32_t i) {
           if (!expect(reader, tree.nodes[i], JsonKind::Object, "a boundary value")) return false;
           ManifestValue& value = values.emplace_back();
           uint32_t arg = 0, kwarg = 0, local = 0;
           if (!optional_member(reader, tree, i, "arg", JsonKind::Integer, arg) ||
               !optional_member(reader, tree, i, "kwarg", JsonKind::String, kwarg) ||
               !optional_member(reader, tree, i, "use_local", JsonKind::Bool, local)) {
             return false;
           }
           if (arg != 0 && !read_index(reader, tree.nodes[arg], value.arg)) return false;
           if (kwarg != 0) value.kwarg = tree.nodes[kwarg].text;
           if (local != 0) value.use_local = tree.nodes[local].is_true;
           const uint32_t from = find_member(tree, i, "from"), to = find_member(tree, i, "to");
           const uint32_t forward = find_member(tree, i, "forward"), backward = find_member(tree, i, "backward");
           return (from == 0 || read_placements(reader, tree, from, value.from)) &&
                  (to == 0 || read_placements(reader, tree, to, value.to)) &&
                  read_value_steps(reader, tree, forward, value.forward) &&
                  read_value_steps(reader, tree, backward, value.backward) && prove_value(reader, tree.nodes[i], value);
         });
}

}  // namespace

bool read_module(ManifestReader& reader, const JsonTree& tree) {
  if (!expect(reader, tree.nodes[0], JsonKind::Object, "a module")) return false;
  const uint32_t path = member(reader, tree, 0, "path", JsonKind::String),
                 style = member(reader, tree, 0, "style", JsonKind::String);
  if (path == 0 || style == 0) return false;
  Manifest& manifest = reader.manifest;
  const std::string_view text = tree.nodes[path].text;
  manifest.modules.push_back({.name_begin = manifest.names.size(),
                              .name_length = static_cast<uint32_t>(text.size()),
                              .layout = static_cast<uint32_t>(manifest.module_layouts.size())});
  manifest.names += text;
  ModuleLayout& layout = manifest.module_layouts.emplace_back();
  layout.style = tree.nodes[style].text;
  return read_rule_index(reader, tree, 0, layout.rule) && read_values(reader, tree, "inputs", layout.inputs) &&
         read_values(reader, tree, "outputs", layout.outputs);
}

}  // namespace tpplan
