#include "emit/emit_text.h"

#include <spdlog/fmt/fmt.h>

#include "sharding/check_sharding.h"
#include "sharding/shard_slice.h"
#include "sharding/tensor_size.h"

namespace tpplan {

std::string list_text(const std::vector<std::string>& items) { return fmt::format("[{}]", fmt::join(items, ", ")); }

std::string axis_names_text(const Mesh& mesh) {
  std::vector<std::string> names;
  for (const MeshAxis& axis : mesh.axes) names.push_back(json_text(axis.name));
  return list_text(names);
}

std::string axis_sizes_text(const Mesh& mesh) {
  std::vector<int64_t> sizes;
  for (const MeshAxis& axis : mesh.axes) sizes.push_back(axis.size);
  return shape_text(sizes);
}

bool has_uneven_shards(const ParamLayout& layout, const Mesh& mesh) {
  return !is_even(layout.shape, layout.sharding, mesh);
}

bool has_segments(const ParamLayout& layout, const Mesh& mesh) {
  for (const DimSegments& segments : layout.sharding.segments) {
    if (segments.sizes.size() > 1 && shard_count(layout.sharding.spec[segments.dim], mesh) > 1) return true;
  }
  return false;
}

// The loop ends at the latest without axes, because one shard is always even.
PartitionSpec even_spec(const ParamLayout& layout, const Mesh& mesh) {
  PartitionSpec spec = layout.sharding.spec;
  for (size_t dim = 0; dim < spec.size(); ++dim) {
    while (!divides(shard_count(spec[dim], mesh), layout.shape[dim])) spec[dim].pop_back();
  }
  return spec;
}

bool any_shard(const DimAxes& axes, const Mesh& mesh,
               const std::function<bool(const std::vector<int64_t>& coordinate, int64_t index)>& test) {
  std::vector<int64_t> coordinate(mesh.axes.size(), 0);
  for (int64_t index = 0; index < shard_count(axes, mesh); ++index) {
    if (test(coordinate, index)) return true;
    for (size_t i = axes.size(); i-- > 0;) {
      if (++coordinate[axes[i]] < mesh.axes[axes[i]].size) break;
      coordinate[axes[i]] = 0;
    }
  }
  return false;
}

void begin_document(JsonWriter& json, const Mesh& mesh, std::string_view sizes, std::string_view names) {
  begin_object(json);
  next_line(json, 1);
  write_key(json, "mesh");
  begin_object(json);
  write_key(json, sizes);
  write_json(json, axis_sizes_text(mesh));
  write_key(json, names);
  write_json(json, axis_names_text(mesh));
  end_object(json);
}

bool end_document(JsonWriter& json) {
  next_line(json, 1);
  end_object(json);
  next_line(json, 0);
  end_object(json);
  return finish_json(json);
}

std::vector<std::string> layout_texts(const Manifest& manifest,
                                      const std::function<void(JsonWriter&, const ParamLayout&)>& write) {
  std::vector<std::string> texts;
  for (const ParamLayout& layout : manifest.layouts)
    texts.push_back(json_of([&](JsonWriter& json) { write(json, layout); }));
  return texts;
}

void write_params(JsonWriter& json, const Manifest& manifest,
                  const std::function<void(JsonWriter&, const ParamLayout&)>& write) {
  const std::vector<std::string> layouts = layout_texts(manifest, write);
  for (const ManifestParam& param : manifest.parameters) {
    next_line(json, 2);
    write_key(json, path_of(manifest, param));
    write_json(json, layouts[param.layout]);
  }
}

bool write_params(const Manifest& manifest, const Sink& sink, const ParamLines& lines) {
  std::vector<std::string> layouts;
  for (const ParamLayout& layout : manifest.layouts) layouts.push_back(lines.layout_text(layout));
  if (!sink(lines.head)) return false;
  std::string line;
  for (const ManifestParam& param : manifest.parameters) {
    line.assign(&param == manifest.parameters.data() ? "" : ",\n");
    lines.append_line(line, path_of(manifest, param), layouts[param.layout]);
    if (!sink(line)) return false;
  }
  return sink(lines.tail);
}

}  // namespace tpplan
