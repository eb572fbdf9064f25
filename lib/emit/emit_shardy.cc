#include "emit/emit_shardy.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/text.h"
#include "emit/emit_text.h"
#include "sharding/check_sharding.h"
#include "sharding/shard_slice.h"

namespace tpplan {
namespace {

// True if sharding a dim axis by axis differs from sharding it by their product: 5 over 2 x 2 is 2, 1, 1, 1 here, and
// 2, 2, 1, 0 in Shardy.
bool is_sharded_axis_by_axis(const ParamLayout& layout, const Mesh& mesh) {
  for (size_t dim = 0; dim < layout.shape.size(); ++dim) {
    const DimAxes& axes = layout.sharding.spec[dim];
    const int64_t shards = shard_count(axes, mesh);
    if (axes.size() < 2 || divides(shards, layout.shape[dim])) continue;
    const bool differs = any_shard(axes, mesh, [&](const std::vector<int64_t>& coordinate, int64_t index) {
      const auto slice = shard_slice(layout.shape, {.spec = layout.sharding.spec, .segments = {}}, mesh, coordinate);
      return slice[dim][0] != chunk({0, layout.shape[dim]}, shards, index);
    });
    if (differs) return true;
  }
  return false;
}

// Returns an MLIR string literal; invisible characters, quotes and backslashes are two hexadecimal digits for each
// byte.
std::string mlir_string(std::string_view text) {
  std::string out = "\"";
  for (size_t at = 0; at < text.size();) {
    const std::string_view character = text.substr(at, std::max<size_t>(1, utf8_length(text.substr(at, 4))));
    at += character.size();
    const bool is_shown = character != "\"" && character != "\\" && escape_for_terminal(character) == character;
    for (const char c : character)
      out += is_shown ? std::string(1, c) : fmt::format("\\{:02X}", static_cast<uint8_t>(c));
  }
  return out + "\"";
}

std::string mesh_text(const Mesh& mesh) {
  std::vector<std::string> axes;
  for (const MeshAxis& axis : mesh.axes) axes.push_back(fmt::format("{}={}", mlir_string(axis.name), axis.size));
  return fmt::format("sdy.mesh @mesh = <{}>", list_text(axes));
}

std::string tensor_text(const ParamLayout& layout, const Mesh& mesh) {
  std::string shape;
  for (const int64_t size : layout.shape) shape += fmt::format("{}x", size);
  std::vector<std::string> dims;
  for (const DimAxes& axes : layout.sharding.spec) {
    std::vector<std::string> names;
    for (const AxisId axis : axes) names.push_back(mlir_string(mesh.axes[axis].name));
    dims.push_back(fmt::format("{{{}}}", fmt::join(names, ", ")));
  }
  return fmt::format("tensor<{}{}> {{sdy.sharding = #sdy.sharding<@mesh, {}>", shape, dtypes()[layout.dtype].mlir,
                     list_text(dims));
}

}  // namespace

const FormatLimit kShardyLimitRows[2] = {
    {is_sharded_axis_by_axis, "a dim of {} is sharded unevenly, one axis after the other",
     "only the axes are written, and Shardy shards by their product, so ranks hold other elements"},
    {has_segments, "the segments of {} are sharded separately",
     "the dim is sharded as a single segment, so ranks hold other elements"},
};

// sdy.sharding has no property for uneven shards, so the attribute `tpplan.uneven` tells read_shardy about them.
bool write_shardy(const Manifest& manifest, const Sink& sink) {
  const Mesh& mesh = manifest.mesh;
  const bool uneven = std::any_of(manifest.layouts.begin(), manifest.layouts.end(),
                                  [&](const ParamLayout& layout) { return has_uneven_shards(layout, mesh); });
  return write_params(manifest, sink,
                      {.head = fmt::format("module{} {{\n  {}\n  func.func private @parameters(\n",
                                           uneven ? " attributes {tpplan.uneven = \"torch\"}" : "", mesh_text(mesh)),
                       .layout_text = [&](const ParamLayout& layout) { return tensor_text(layout, mesh); },
                       .append_line =
                           [](std::string& line, std::string_view path, const std::string& tensor) {
                             line += fmt::format("    {}, tpplan.path = {}}}", tensor, mlir_string(path));
                           },
                       .tail = ")\n}\n"});
}

}  // namespace tpplan
