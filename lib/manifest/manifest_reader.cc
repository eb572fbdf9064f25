#include "manifest/manifest_reader.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/text.h"

namespace tpplan {

bool report_error(ManifestReader& reader, Code code, Span span, std::string message) {
  report_message(reader.diagnostics, code, span, std::move(message));
  return false;
}

bool report_error(ManifestReader& reader, Code code, const JsonNode& node, std::string message) {
  return report_error(reader, code, value_span(reader.file, node), std::move(message));
}

bool expect(ManifestReader& reader, const JsonNode& node, JsonKind kind, std::string_view what) {
  if (node.kind == kind) return true;
  return report_error(reader, Code::InvalidManifest, node,
                      fmt::format("{} is {}, not {}", what, json_kind_name(node.kind), json_kind_name(kind)));
}

bool report_unknown_field(ManifestReader& reader, Span span, std::string_view what, std::string_view name,
                          std::span<const std::string_view> names) {
  const std::string_view nearest = nearest_name(name, names);
  return report_error(reader, Code::InvalidManifest, span,
                      fmt::format("{} has no key `{}`{}", what, name,
                                  nearest.empty() ? "" : fmt::format(" (did you mean `{}`?)", nearest)));
}

bool expect_only_fields(ManifestReader& reader, const JsonTree& tree, uint32_t object, std::string_view what,
                        std::initializer_list<std::string_view> names) {
  return for_each(tree, object, [&](uint32_t i) {
    const JsonNode& node = tree.nodes[i];
    return std::ranges::find(names, node.key) != names.end() ||
           report_unknown_field(reader, key_span(reader.file, node), what, node.key, {names.begin(), names.size()});
  });
}

bool has_fields(ManifestReader& reader, const JsonTree& tree, uint32_t object,
                std::initializer_list<std::string_view> names) {
  return std::ranges::all_of(names, [&](std::string_view key) {
    return find_json_field(tree, object, key) != 0 ||
           report_error(reader, Code::InvalidManifest, tree.nodes[object], fmt::format("`{}` is missing", key));
  });
}

uint32_t required_field(ManifestReader& reader, const JsonTree& tree, uint32_t object, std::string_view key,
                        JsonKind kind) {
  if (!has_fields(reader, tree, object, {key})) return 0;
  const uint32_t at = find_json_field(tree, object, key);
  return tree.nodes[at].kind == kind || expect(reader, tree.nodes[at], kind, fmt::format("`{}`", key)) ? at : 0;
}

bool optional_field(ManifestReader& reader, const JsonTree& tree, uint32_t object, std::string_view key, JsonKind kind,
                    uint32_t& at) {
  at = find_json_field(tree, object, key);
  if (at != 0 && tree.nodes[at].kind == JsonKind::Null) at = 0;
  return at == 0 || tree.nodes[at].kind == kind || expect(reader, tree.nodes[at], kind, fmt::format("`{}`", key));
}

bool read_axis(ManifestReader& reader, const JsonNode& node, AxisId& axis) {
  if (!expect(reader, node, JsonKind::String, "an axis")) return false;
  axis = find_axis(reader.manifest.mesh, node.text);
  return axis != kNoAxis || report_error(reader, Code::InconsistentManifest, node,
                                         fmt::format("`{}` is not an axis of the mesh", node.text));
}

bool read_index(ManifestReader& reader, const JsonNode& node, int& index) {
  index = static_cast<int>(node.integer);
  return index == node.integer ||
         report_error(reader, Code::InvalidManifest, node,
                      fmt::format("{} is neither a dim nor the position of an argument", node.integer));
}

bool read_collective_kind(ManifestReader& reader, const JsonNode& node, CollectiveKind& kind) {
  return find_collective(node.text, kind) ||
         report_error(reader, Code::InvalidManifest, node, fmt::format("unknown collective `{}`", node.text));
}

bool read_collective(ManifestReader& reader, const JsonTree& tree, uint32_t object, Collective& collective) {
  if (!expect(reader, tree.nodes[object], JsonKind::Object, "a collective")) return false;
  const uint32_t kind = required_field(reader, tree, object, "kind", JsonKind::String),
                 axis = required_field(reader, tree, object, "axis", JsonKind::String);
  if (kind == 0 || axis == 0 || !read_collective_kind(reader, tree.nodes[kind], collective.kind)) return false;
  const bool has_dim = collective.kind != CollectiveKind::AllReduce,
             has_from = collective.kind == CollectiveKind::AllToAll;
  for (const auto& [name, is_there, target] :
       {std::tuple{"dim", has_dim, &collective.dim}, std::tuple{"from_dim", has_from, &collective.from_dim}}) {
    uint32_t dim = 0;
    if (!optional_field(reader, tree, object, name, JsonKind::Integer, dim)) return false;
    if ((dim != 0) != is_there)
      return report_error(reader, Code::InvalidManifest, tree.nodes[object],
                          fmt::format("a collective {} `{}`", is_there ? "needs" : "must not have", name));
    if (dim != 0 && !read_index(reader, tree.nodes[dim], *target)) return false;
  }
  return read_axis(reader, tree.nodes[axis], collective.axis);
}

bool read_sent_dtypes(ManifestReader& reader, const JsonTree& tree, uint32_t object, std::optional<DType>& forward,
                      std::optional<DType>& backward) {
  const std::pair<std::string_view, std::optional<DType>&> members[] = {{"forward_dtype", forward},
                                                                        {"backward_dtype", backward}};
  for (const auto& [key, dtype] : members) {
    uint32_t at = 0;
    DType read{};
    if (!optional_field(reader, tree, object, key, JsonKind::String, at)) return false;
    if (at == 0) continue;
    if (!find_dtype(tree.nodes[at].text, read) || !is_compute_dtype(read))
      return report_error(reader, Code::InvalidManifest, tree.nodes[at],
                          fmt::format("`{}` is `{}`, which is not a dtype for sent values", key, tree.nodes[at].text));
    dtype = read;
  }
  return true;
}

bool read_rule_index(ManifestReader& reader, const JsonTree& tree, uint32_t object, uint32_t& rule) {
  uint32_t at = 0;
  if (!optional_field(reader, tree, object, "rule", JsonKind::Integer, at)) return false;
  if (at == 0) return true;
  const int64_t index = tree.nodes[at].integer;
  if (index < 0 || static_cast<uint64_t>(index) >= reader.manifest.rules.size()) {
    return report_error(reader, Code::InconsistentManifest, tree.nodes[at],
                        fmt::format("rule {} does not exist", index));
  }
  rule = static_cast<uint32_t>(index);
  return true;
}

bool read_sizes(ManifestReader& reader, const JsonTree& tree, uint32_t at, std::vector<int64_t>& sizes) {
  if (!expect(reader, tree.nodes[at], JsonKind::Array, "a list of sizes")) return false;
  return for_each(tree, at, [&](uint32_t i) {
    sizes.push_back(tree.nodes[i].integer);
    return expect(reader, tree.nodes[i], JsonKind::Integer, "a size") &&
           (tree.nodes[i].integer >= 0 ||
            report_error(reader, Code::InvalidManifest, tree.nodes[i], "a size is negative"));
  });
}

bool read_names(ManifestReader& reader, const JsonTree& tree, uint32_t at, std::vector<std::string>& names,
                std::string_view what) {
  if (!expect(reader, tree.nodes[at], JsonKind::Array, fmt::format("a list of {}s", what))) return false;
  return for_each(tree, at, [&](uint32_t i) {
    names.emplace_back(tree.nodes[i].text);
    return expect(reader, tree.nodes[i], JsonKind::String, fmt::format("a {}", what));
  });
}

bool read_placements(ManifestReader& reader, const JsonTree& tree, uint32_t at,
                     std::optional<std::vector<Placement>>& placements) {
  if (tree.nodes[at].kind == JsonKind::Null) return true;
  if (!expect(reader, tree.nodes[at], JsonKind::Array, "`placements`")) return false;
  placements.emplace();
  return for_each(tree, at, [&](uint32_t i) {
    if (!expect(reader, tree.nodes[i], JsonKind::String, "a placement")) return false;
    return parse_placement(tree.nodes[i].text, placements->emplace_back()) ||
           report_error(reader, Code::InvalidManifest, tree.nodes[i],
                        fmt::format("unknown placement `{}`", tree.nodes[i].text));
  });
}

}  // namespace tpplan
