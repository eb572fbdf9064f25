#include "emit/emit_keras.h"

#include <algorithm>
#include <map>

#include "base/keyed_hash.h"
#include "emit/emit_text.h"
#include "emit/path_groups.h"
#include "manifest/manifest_json.h"

namespace tpplan {
namespace {

bool has_two_axes(const ParamLayout& layout, const Mesh&) {
  return std::any_of(layout.sharding.spec.begin(), layout.sharding.spec.end(),
                     [](const DimAxes& axes) { return axes.size() > 1; });
}

// Returns a spec with at most one axis for each dim: the major one, if it divides the dim.
PartitionSpec keras_spec(const ParamLayout& layout, const Mesh& mesh) {
  PartitionSpec spec = even_spec(layout, mesh);
  for (DimAxes& axes : spec) axes.resize(std::min<size_t>(axes.size(), 1));
  return spec;
}

// Returns a regular expression that matches only this text in Python and in RE2. The escaped characters are special in
// both; all others are literal in both.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view("\\.^$*+?{}[]|()").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

// Varying numbers match any number: group_paths guarantees that all paths of this form are in the group.
std::string key_of(std::string_view path, const PathGroup& group) {
  const NumberedPath split = split_numbers(path);
  std::string key = escaped(split.texts[0]);
  for (size_t i = 0; i < split.numbers.size(); ++i) {
    key += group.varies[i] ? "[0-9]+" : split.numbers[i];
    key += escaped(split.texts[i + 1]);
  }
  return key;
}

// Keras first looks up the path itself as a key, so a key that is another parameter's path needs another form.
std::string unmistakable(std::string key, const TextSet<std::string_view>& paths, std::string_view path) {
  while (key != path && paths.contains(key)) key.insert(0, "(?:)");
  return key;
}

}  // namespace

const FormatLimit kKerasLimitRows[3] = {
    {has_two_axes, "a dim of {} is sharded over two axes", "only the major axis shards the dim, so ranks hold more"},
    {has_uneven_shards, "the shards of {} have different sizes",
     "minor axes are dropped until the rest divides the dim, so ranks hold more"},
    {has_segments, "the segments of {} are sharded separately",
     "the dim is sharded as a single segment, so ranks hold other elements"},
};

// Layouts with the same Keras spec share keys.
bool write_keras(const Manifest& manifest, const Sink& sink) {
  const Mesh& mesh = manifest.mesh;
  std::map<std::string, uint32_t> known;
  std::vector<std::string> layouts;
  std::vector<uint32_t> layout_values, values;
  for (const ParamLayout& layout : manifest.layouts) {
    layouts.push_back(json_of([&](JsonWriter& json) { write_spec(json, keras_spec(layout, mesh), mesh); }));
    layout_values.push_back(known.emplace(layouts.back(), static_cast<uint32_t>(known.size())).first->second);
  }
  std::vector<std::string_view> paths;
  for (const ManifestParam& param : manifest.parameters) {
    paths.push_back(path_of(manifest, param));
    values.push_back(layout_values[param.layout]);
  }
  const TextSet<std::string_view> all_paths(paths.begin(), paths.end());
  JsonWriter json{.sink = &sink};
  begin_document(json, mesh, "shape", "axis_names");
  next_line(json, 1);
  write_key(json, "layout_map");
  begin_object(json);
  for (const PathGroup& group : group_paths(paths, values)) {
    const uint32_t first = group.members[0];
    next_line(json, 2);
    write_key(json, unmistakable(key_of(paths[first], group), all_paths, paths[first]));
    write_json(json, layouts[manifest.parameters[first].layout]);
  }
  return end_document(json);
}

}  // namespace tpplan
