#include "emit/emit_onnx.h"

#include <spdlog/fmt/fmt.h>

#include "emit/emit_text.h"

namespace tpplan {

const LossRow kOnnxLossRows[2] = {
    {has_uneven_pieces, "the pieces of {} have different sizes",
     "the number of shards is given: their sizes are up to the backend"},
    {has_segments, "the segments of {} are cut each by itself",
     "the dim is cut as one piece: ranks hold other elements"},
};

namespace {

constexpr std::string_view kConfiguration = "tpplan";

// The shard that a coordinate holds: row-major over the dims, and within a dim over its axes, major first.
size_t shard_index(const PartitionSpec& spec, const Mesh& mesh, std::span<const int64_t> coordinate) {
  size_t index = 0;
  for (const DimAxes& axes : spec) {
    for (const AxisId axis : axes)
      index = index * static_cast<size_t>(mesh.axes[axis].size) + static_cast<size_t>(coordinate[axis]);
  }
  return index;
}

// For each shard the ranks that hold it, ascending.
std::vector<std::vector<int64_t>> ranks_of_shards(const PartitionSpec& spec, const Mesh& mesh) {
  std::vector<std::vector<int64_t>> ranks(static_cast<size_t>(shard_count(spec, mesh)));
  for (int64_t rank = 0; rank < device_count(mesh); ++rank) {
    ranks[shard_index(spec, mesh, coordinate_of(mesh, rank))].push_back(rank);
  }
  return ranks;
}

std::string devices_text(const PartitionSpec& spec, const Mesh& mesh) {
  std::vector<int64_t> devices;
  std::vector<std::string> groups;
  for (const std::vector<int64_t>& ranks : ranks_of_shards(spec, mesh)) {
    const auto key = -static_cast<int64_t>(devices.size()) - 1;
    devices.push_back(ranks.size() == 1 ? ranks[0] : key);
    if (ranks.size() > 1) groups.push_back(fmt::format("{{\"key\": {}, \"value\": {}}}", key, sizes_text(ranks)));
  }
  const std::string map = groups.empty() ? "" : fmt::format(", \"index_to_device_group_map\": {}", list_text(groups));
  return fmt::format("\"device\": {}{}", sizes_text(devices), map);
}

std::string dims_text(const ParamLayout& layout, const Mesh& mesh) {
  std::vector<std::string> dims;
  for (size_t dim = 0; dim < layout.shape.size(); ++dim) {
    const DimAxes& axes = layout.sharding.spec[dim];
    if (axes.empty()) continue;
    dims.push_back(fmt::format("{{\"axis\": {}, \"simple_sharding\": [{{\"dim_value\": {}, \"num_shards\": {}}}]}}",
                               dim, layout.shape[dim], shard_count(axes, mesh)));
  }
  return dims.empty() ? "" : fmt::format(", \"sharded_dim\": {}", list_text(dims));
}

}  // namespace

bool write_onnx(const Manifest& manifest, const Sink& sink) {
  const Mesh& mesh = manifest.mesh;
  return write_params(
      manifest, sink,
      {.head = fmt::format("{{\n \"model\": {{\"configuration\": [{{\"name\": \"{0}\", \"num_devices\": {1}}}]}},\n"
                           " \"device_configuration\": {{\"configuration_id\": \"{0}\", \"sharding_spec\": [\n",
                           kConfiguration, device_count(mesh)),
       .layout_text =
           [&](const ParamLayout& layout) {
             return devices_text(layout.sharding.spec, mesh) + dims_text(layout, mesh);
           },
       .append_line =
           [](std::string& line, std::string_view path, const std::string& layout) {
             line += fmt::format("  {{\"tensor_name\": {}, {}}}", quoted(path), layout);
           },
       .tail = "\n ]}\n}\n"});
}

}  // namespace tpplan
