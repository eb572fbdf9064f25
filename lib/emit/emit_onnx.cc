#include "emit/emit_onnx.h"

#include <algorithm>
#include <utility>

#include "emit/emit_text.h"

namespace tpplan {

const FormatLimit kOnnxLimitRows[2] = {
    {has_uneven_shards, "the shards of {} have different sizes",
     "only the number of shards is written, and the backend chooses their sizes"},
    {has_segments, "the segments of {} are sharded separately",
     "the dim is sharded as a single segment, so ranks hold other elements"},
};

namespace {

// The name of the device configuration, by which the second message refers to the first.
constexpr std::string_view kConfiguration = "tpplan";

// Returns the index of a coordinate's shard: row-major over the dims, and within a dim over its axes, major first.
size_t shard_index(const PartitionSpec& spec, const Mesh& mesh, std::span<const int64_t> coordinate) {
  size_t index = 0;
  for (const DimAxes& axes : spec) {
    for (const AxisId axis : axes)
      index = index * static_cast<size_t>(mesh.axes[axis].size) + static_cast<size_t>(coordinate[axis]);
  }
  return index;
}

// Returns for each shard the ranks that hold it, ascending.
std::vector<std::vector<int64_t>> ranks_of_shards(const PartitionSpec& spec, const Mesh& mesh) {
  std::vector<std::vector<int64_t>> ranks(static_cast<size_t>(shard_count(spec, mesh)));
  for (int64_t rank = 0; rank < device_count(mesh); ++rank) {
    ranks[shard_index(spec, mesh, coordinate_of(mesh, rank))].push_back(rank);
  }
  return ranks;
}

// Writes the device of each shard; a negative number refers to the group of devices that hold a replicated shard.
void write_devices(JsonWriter& json, const PartitionSpec& spec, const Mesh& mesh) {
  std::vector<int64_t> devices;
  std::vector<std::pair<int64_t, std::vector<int64_t>>> groups;
  for (const std::vector<int64_t>& ranks : ranks_of_shards(spec, mesh)) {
    const auto key = -static_cast<int64_t>(devices.size()) - 1;
    devices.push_back(ranks.size() == 1 ? ranks[0] : key);
    if (ranks.size() > 1) groups.emplace_back(key, ranks);
  }
  write_key(json, "device");
  write_array(json, devices);
  if (groups.empty()) return;
  write_key(json, "index_to_device_group_map");
  write_array(json, groups, [&](const auto& group) {
    begin_object(json);
    write_field(json, "key", group.first);
    write_key(json, "value");
    write_array(json, group.second);
    end_object(json);
  });
}

void write_dims(JsonWriter& json, const ParamLayout& layout, const Mesh& mesh) {
  if (!std::ranges::any_of(layout.sharding.spec, [](const DimAxes& axes) { return !axes.empty(); })) return;
  write_key(json, "sharded_dim");
  begin_array(json);
  for (size_t dim = 0; dim < layout.shape.size(); ++dim) {
    const DimAxes& axes = layout.sharding.spec[dim];
    if (axes.empty()) continue;
    begin_object(json);
    write_field(json, "axis", dim);
    write_key(json, "simple_sharding");
    begin_array(json);
    begin_object(json);
    write_field(json, "dim_value", layout.shape[dim]);
    write_field(json, "num_shards", shard_count(axes, mesh));
    end_object(json);
    end_array(json);
    end_object(json);
  }
  end_array(json);
}

}  // namespace

bool write_onnx(const Manifest& manifest, const Sink& sink) {
  const Mesh& mesh = manifest.mesh;
  const std::vector<std::string> layouts = layout_texts(manifest, [&](JsonWriter& json, const ParamLayout& layout) {
    write_devices(json, layout.sharding.spec, mesh);
    write_dims(json, layout, mesh);
  });
  JsonWriter json{.sink = &sink};
  begin_object(json);
  next_line(json, 1);
  write_key(json, "model");
  begin_object(json);
  write_key(json, "configuration");
  begin_array(json);
  begin_object(json);
  write_field(json, "name", kConfiguration);
  write_field(json, "num_devices", device_count(mesh));
  end_object(json);
  end_array(json);
  end_object(json);
  next_line(json, 1);
  write_key(json, "device_configuration");
  begin_object(json);
  write_field(json, "configuration_id", kConfiguration);
  write_key(json, "sharding_spec");
  begin_array(json);
  for (const ManifestParam& param : manifest.parameters) {
    next_line(json, 2);
    begin_object(json);
    write_field(json, "tensor_name", path_of(manifest, param));
    write_json(json, layouts[param.layout]);
    end_object(json);
  }
  next_line(json, 1);
  end_array(json);
  end_object(json);
  next_line(json, 0);
  end_object(json);
  return finish_json(json);
}

}  // namespace tpplan
