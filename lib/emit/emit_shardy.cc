#include "emit/emit_shardy.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "emit/emit_text.h"
#include "sharding/check_sharding.h"
#include "sharding/shard_slice.h"

namespace tpplan {
namespace {

// True when the axes, one after the other, cut a dim into other pieces than their product does: 5 over 2 x 2 is 2, 1,
// 1, 1 here, and 2, 2, 1, 0 in Shardy.
bool is_cut_axis_by_axis(const ParamLayout& layout, const Mesh& mesh) {
  for (size_t dim = 0; dim < layout.shape.size(); ++dim) {
    const DimAxes& axes = layout.sharding.spec[dim];
    const int64_t ways = shard_count(axes, mesh);
    if (axes.size() < 2 || divides(ways, layout.shape[dim])) continue;
    const bool differs = any_piece(axes, mesh, [&](const std::vector<int64_t>& coordinate, int64_t index) {
      const auto slice = shard_slice(layout.shape, {.spec = layout.sharding.spec, .segments = {}}, mesh, coordinate);
      return slice[dim][0] != chunk({0, layout.shape[dim]}, ways, index);
    });
    if (differs) return true;
  }
  return false;
}

struct TypeRow {
  std::string_view dtype;
  std::string_view mlir;
};

// Element types of MLIR. Where it has none, the integers that are stored.
constexpr TypeRow kTypes[] = {
    {"bfloat16", "bf16"},
    {"float32", "f32"},
    {"float16", "f16"},
    {"float64", "f64"},
    {"float8_e4m3fn", "f8E4M3FN"},
    {"float8_e5m2", "f8E5M2"},
    {"float8_e4m3fnuz", "f8E4M3FNUZ"},
    {"float8_e5m2fnuz", "f8E5M2FNUZ"},
    {"float8_e8m0fnu", "f8E8M0FNU"},
    {"float8_e4m3", "f8E4M3"},
    {"float8_e3m4", "f8E3M4"},
    {"float8_e4m3b11fnuz", "f8E4M3B11FNUZ"},
    {"float4_e2m1fn", "f4E2M1FN"},
    {"float6_e2m3fn", "f6E2M3FN"},
    {"float6_e3m2fn", "f6E3M2FN"},
    {"int8", "i8"},
    {"uint8", "ui8"},
    {"int16", "i16"},
    {"uint16", "ui16"},
    {"int32", "i32"},
    {"uint32", "ui32"},
    {"int64", "i64"},
    {"uint64", "ui64"},
    {"int4", "i4"},
    {"uint4", "ui4"},
    {"int2", "i2"},
    {"uint2", "ui2"},
    {"bool", "i1"},
    {"complex32", "complex<f16>"},
    {"complex64", "complex<f32>"},
    {"complex128", "complex<f64>"},
    {"qint8", "i8"},
    {"quint8", "ui8"},
    {"qint32", "i32"},
    {"float4_e2m1fn_x2", "ui8"},
};

std::string_view mlir_type(DType dtype) {
  const std::string_view name = dtypes()[dtype].name;
  const auto row =
      std::find_if(std::begin(kTypes), std::end(kTypes), [name](const TypeRow& r) { return r.dtype == name; });
  return row == std::end(kTypes) ? "none" : row->mlir;
}

// A string of MLIR: control characters, quotes and backslashes as two hexadecimal digits.
std::string mlir_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f || c == '"' || c == '\\')
      out += fmt::format("\\{:02X}", byte);
    else
      out += c;
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
  return fmt::format("tensor<{}{}> {{sdy.sharding = #sdy.sharding<@mesh, {}>", shape, mlir_type(layout.dtype),
                     list_text(dims));
}

}  // namespace

const LossRow kShardyLossRows[2] = {
    {is_cut_axis_by_axis, "the pieces of {} are these: one dim is cut unevenly, one axis after the other",
     "the axes are given, and Shardy cuts by their product: ranks hold other elements"},
    {has_segments, "the segments of {} are cut each by itself",
     "the dim is cut as one piece: ranks hold other elements"},
};

bool write_shardy(const Manifest& manifest, const Sink& sink) {
  const Mesh& mesh = manifest.mesh;
  const bool uneven = std::any_of(manifest.layouts.begin(), manifest.layouts.end(),
                                  [&](const ParamLayout& layout) { return has_uneven_pieces(layout, mesh); });
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
