#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "manifest/manifest_sections.h"

namespace tpplan {
namespace {

bool read_collectives(ManifestReader& reader, const JsonTree& tree, uint32_t at, std::vector<Collective>& steps) {
  static constexpr CollectiveKind kinds[] = {CollectiveKind::AllGather, CollectiveKind::AllReduce,
                                             CollectiveKind::ReduceScatter, CollectiveKind::AllToAll,
                                             CollectiveKind::LocalSlice};
  if (!expect(reader, tree.nodes[at], JsonKind::Array, "collectives")) return false;
  return for_each(tree, at, [&](uint32_t i) {
    if (!expect(reader, tree.nodes[i], JsonKind::Object, "a collective")) return false;
    const uint32_t kind = member(reader, tree, i, "kind", JsonKind::String),
                   axis = member(reader, tree, i, "axis", JsonKind::String);
    if (kind == 0 || axis == 0) return false;
    Collective& step = steps.emplace_back();
    const auto is_it = [&](CollectiveKind k) { return to_text(k) == tree.nodes[kind].text; };
    const auto found = std::find_if(std::begin(kinds), std::end(kinds), is_it);
    if (found == std::end(kinds)) {
      return fault(reader, Code::TP7001, tree.nodes[kind],
                   fmt::format("unknown collective `{}`", tree.nodes[kind].text));
    }
    step.kind = *found;
    for (const auto& [name, target] : {std::pair{"dim", &step.dim}, std::pair{"from_dim", &step.from_dim}}) {
      uint32_t dim = 0;
      if (!optional_member(reader, tree, i, name, JsonKind::Integer, dim)) return false;
      if (dim != 0) *target = static_cast<int>(tree.nodes[dim].integer);
    }
    return read_axis(reader, tree.nodes[axis], step.axis);
  });
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
           if (arg != 0) value.arg = static_cast<int>(tree.nodes[arg].integer);
           if (kwarg != 0) value.kwarg = tree.nodes[kwarg].text;
           if (local != 0) value.use_local = tree.nodes[local].is_true;
           const uint32_t from = find_member(tree, i, "from"), to = find_member(tree, i, "to");
           const uint32_t forward = find_member(tree, i, "forward"), backward = find_member(tree, i, "backward");
           return (from == 0 || read_placements(reader, tree, from, value.from)) &&
                  (to == 0 || read_placements(reader, tree, to, value.to)) &&
                  (forward == 0 || read_collectives(reader, tree, forward, value.forward)) &&
                  (backward == 0 || read_collectives(reader, tree, backward, value.backward));
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
