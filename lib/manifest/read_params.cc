#include <spdlog/fmt/fmt.h>

#include "manifest/manifest_sections.h"
#include "manifest/prove_layout.h"
#include "manifest/read_layout.h"

namespace tpplan {
namespace {

// Finds or reads the layout of the parameter with its path at node `path`. The text after the path is the key, so that
// parameters with equal text share a layout, which is read and checked once.
bool find_layout(ManifestReader& reader, const JsonTree& tree, uint32_t path, uint32_t& layout) {
  const JsonNode& path_node = tree.nodes[path];
  std::string key;
  if (path == 1 && path_node.end < tree.nodes[0].end) {
    const size_t begin = tree.nodes[path_node.end].key_offset;
    key.assign(reader.text, begin, tree.end - begin);
    if (const auto known = reader.layout_index.find(key); known != reader.layout_index.end()) {
      layout = known->second;
      return true;
    }
  }
  ParamLayout read;
  std::optional<std::vector<DimOffsets>> offsets;
  if (!read_layout(reader, tree, read, offsets) || !prove_layout(reader, read, path_node.text, path_node) ||
      !prove_offsets(reader, read, offsets, path_node.text, path_node))
    return false;
  layout = static_cast<uint32_t>(reader.manifest.layouts.size());
  reader.manifest.layouts.push_back(std::move(read));
  reader.layout_spans.push_back(value_span(reader.file, path_node));
  if (!key.empty()) reader.layout_index.emplace(std::move(key), layout);
  return true;
}

// Reads a parameter or buffer into `list`.
bool read_param(ManifestReader& reader, const JsonTree& tree, std::vector<ManifestParam>& list) {
  Manifest& manifest = reader.manifest;
  if (!reader.has_mesh)
    return report_error(reader, Code::InvalidManifest, tree.nodes[0], "`parameters` precedes the mesh");
  if (!expect(reader, tree.nodes[0], JsonKind::Object, "a parameter")) return false;
  const uint32_t path = required_field(reader, tree, 0, "path", JsonKind::String);
  if (path == 0) return false;
  const std::string_view text = tree.nodes[path].text;
  ManifestParam param{
      .name_begin = manifest.names.size(), .name_length = static_cast<uint32_t>(text.size()), .layout = 0};
  if (!find_layout(reader, tree, path, param.layout)) return false;
  manifest.names += text;
  list.push_back(param);
  return true;
}

}  // namespace

bool read_parameter(ManifestReader& reader, const JsonTree& tree) {
  const Manifest& manifest = reader.manifest;
  if (!read_param(reader, tree, reader.manifest.parameters)) return false;
  const auto name_of = [&](uint32_t i) { return path_of(manifest, manifest.parameters[i]); };
  const auto last = static_cast<uint32_t>(manifest.parameters.size() - 1);
  if (insert(reader.paths, name_of(last), last, name_of) == kNotFound) return true;
  return report_error(reader, Code::InconsistentManifest, tree.nodes[find_json_field(tree, 0, "path")],
                      fmt::format("`{}` appears twice", name_of(last)));
}

// Reads a buffer. It is not in the index of paths, because that is for ties, which have only parameters.
bool read_buffer(ManifestReader& reader, const JsonTree& tree) {
  return read_param(reader, tree, reader.manifest.buffers);
}

// Reads one group of tied parameters.
bool read_tie(ManifestReader& reader, const JsonTree& tree) {
  if (!expect(reader, tree.nodes[0], JsonKind::Array, "a group of tied names")) return false;
  const Manifest& manifest = reader.manifest;
  const auto name_of = [&](uint32_t i) { return path_of(manifest, manifest.parameters[i]); };
  std::vector<uint32_t> names;
  reader.is_tied.resize(manifest.parameters.size());
  const bool read = for_each(tree, 0, [&](uint32_t i) {
    const JsonNode& name = tree.nodes[i];
    if (!expect(reader, name, JsonKind::String, "a tied name")) return false;
    const uint32_t param = find(reader.paths, name.text, name_of);
    if (param == kNotFound) {
      return report_error(reader, Code::InconsistentManifest, name,
                          fmt::format("tied name `{}` is not an earlier parameter", name.text));
    }
    if (reader.is_tied[param])
      return report_error(reader, Code::InconsistentManifest, name, fmt::format("`{}` is tied twice", name.text));
    reader.is_tied[param] = true;
    names.push_back(param);
    const ParamLayout& first = layout_of(manifest, manifest.parameters[names[0]]);
    const ParamLayout& other = layout_of(manifest, manifest.parameters[param]);
    if (first.shape == other.shape && first.dtype == other.dtype && first.sharding == other.sharding) return true;
    return report_error(
        reader, Code::InconsistentManifest, name,
        fmt::format("tied names `{}` and `{}` differ in shape, dtype or sharding", name_of(names[0]), name_of(param)));
  });
  if (!read) return false;
  if (names.size() < 2)
    return report_error(reader, Code::InconsistentManifest, tree.nodes[0], "a tie names fewer than two parameters");
  reader.manifest.tied.push_back(std::move(names));
  return true;
}

}  // namespace tpplan
