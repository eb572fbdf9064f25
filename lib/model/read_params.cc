#include "model/read_params.h"

#include <spdlog/fmt/fmt.h>

#include "base/text.h"
#include "model/module_kinds.h"

namespace tpplan {
namespace {

constexpr uint32_t kMaxSegments = 65536;
constexpr size_t kMaxSharedShapes = 4096;
constexpr std::string_view kParamKeys[] = {"shape", "dtype", "dims", "logical_axes", "segments", "granularity"};

// Replaces the shape at the end of `sizes` by an equal earlier one. A million parameters have a dozen shapes.
void share_shape(ModelReader& reader, Param& param) {
  std::vector<int64_t>& sizes = reader.graph.sizes;
  const auto bytes_of_shape = [&](uint32_t i) {
    const auto [begin, ndim] = reader.shapes[i];
    return std::string_view(reinterpret_cast<const char*>(sizes.data() + begin), ndim * sizeof(int64_t));
  };
  const auto id = static_cast<uint32_t>(reader.shapes.size());
  if (id == kMaxSharedShapes) return;
  reader.shapes.emplace_back(param.shape_begin, param.ndim);
  const uint32_t known = insert(reader.shape_index, bytes_of_shape(id), id, bytes_of_shape);
  if (known == kNotFound) return;
  reader.shapes.pop_back();
  sizes.resize(param.shape_begin);
  param.shape_begin = reader.shapes[known].first;
}

// Reads a shape and limits its number of elements. Skips sizes of 0, so that no product of some of the sizes overflows.
bool read_shape(ModelReader& reader, const JsonTree& tree, uint32_t at, Param& param) {
  const JsonNode& list = tree.nodes[at];
  if (!expect(reader, list, JsonKind::Array, "`shape`")) return false;
  param.shape_begin = static_cast<uint32_t>(reader.graph.sizes.size());
  size_t ndim = 0;
  unsigned __int128 product = 1;
  bool good = true;
  for (uint32_t i = at + 1; i < list.end; i = tree.nodes[i].end) {
    const JsonNode& size = tree.nodes[i];
    if (!expect(reader, size, JsonKind::Integer, "a size")) return false;
    if (size.integer < 0) {
      report_error(reader, Code::ShapeOutOfRange, size, fmt::format("size {} is negative", size.integer),
                   "export the model again with fixed sizes");
      return false;
    }
    if (size.integer != 0 && good) product *= static_cast<unsigned __int128>(size.integer);
    good = good && product < (static_cast<unsigned __int128>(1) << 63);
    reader.graph.sizes.push_back(size.integer);
    ++ndim;
  }
  if (!good)
    report_error(reader, Code::ShapeOutOfRange, list, "the product of the nonzero sizes is 2^63 elements or more");
  if (ndim > kMaxDims) {
    report_error(reader, Code::ShapeOutOfRange, list,
                 fmt::format("the shape has {} dims, more than {}", ndim, kMaxDims));
    return false;
  }
  param.ndim = static_cast<uint8_t>(ndim);
  share_shape(reader, param);
  return good;
}

bool read_dtype(ModelReader& reader, const JsonNode& node, Param& param) {
  if (!expect(reader, node, JsonKind::String, "`dtype`")) return false;
  if (find_dtype(node.text, param.dtype)) return true;
  std::vector<std::string_view> names;
  for (const DTypeRow& row : dtypes()) names.push_back(row.name);
  const std::string_view nearest = nearest_name(node.text, names);
  report_error(reader, Code::UnknownDtype, node, fmt::format("unknown dtype `{}`", node.text),
               nearest.empty() ? "use a dtype name of torch: float32, bfloat16, float8_e4m3fn, ..."
                               : fmt::format("did you mean `{}`?", nearest));
  return false;
}

void read_dims(ModelReader& reader, const JsonTree& tree, uint32_t at, const Param& param, ParamExtras& extras) {
  const JsonNode& list = tree.nodes[at];
  if (!expect(reader, list, JsonKind::Array, "`dims`")) return;
  if (list.end - at - 1 > kMaxDims) {
    return report_error(reader, Code::DimsShapeMismatch, list, fmt::format("`dims` has more than {} values", kMaxDims));
  }
  for (uint32_t i = at + 1; i < list.end; i = tree.nodes[i].end) {
    if (!expect(reader, tree.nodes[i], JsonKind::String, "a dim name")) return;
    if (find_dim(extras.dims, tree.nodes[i].text) >= 0) {
      return report_error(reader, Code::DimsShapeMismatch, tree.nodes[i],
                          fmt::format("dim `{}` is named twice", tree.nodes[i].text));
    }
    extras.dims.push_back(tree.nodes[i].text);
  }
  if (extras.dims.size() != param.ndim) {
    report_error(reader, Code::DimsShapeMismatch, list,
                 fmt::format("{} for {}", counted(extras.dims.size(), "dim name"), counted(param.ndim, "dim")));
    extras.dims.clear();
  }
}

void read_logical_axes(ModelReader& reader, const JsonTree& tree, uint32_t at, const Param& param,
                       ParamExtras& extras) {
  const JsonNode& list = tree.nodes[at];
  if (!expect(reader, list, JsonKind::Array, "`logical_axes`")) return;
  if (list.end - at - 1 > kMaxDims)
    return report_error(reader, Code::DimsShapeMismatch, list,
                        fmt::format("`logical_axes` has more than {} values", kMaxDims));
  for (uint32_t i = at + 1; i < list.end; i = tree.nodes[i].end) {
    const JsonNode& name = tree.nodes[i];
    if (name.kind != JsonKind::Null && !expect(reader, name, JsonKind::String, "the logical name of a dim")) return;
    if (name.kind == JsonKind::String && name.text.empty())
      return report_error(reader, Code::DimsShapeMismatch, name, "the logical name of a dim is empty",
                          "write `null` for a dim without a name");
    extras.logical_axes.push_back(name.kind == JsonKind::Null ? std::string_view{} : name.text);
  }
  if (extras.logical_axes.size() == param.ndim) return;
  report_error(
      reader, Code::DimsShapeMismatch, list,
      fmt::format("{} for {}", counted(extras.logical_axes.size(), "logical name"), counted(param.ndim, "dim")));
  extras.logical_axes.clear();
}

// Checks that an object with dims as keys has no more entries than a tensor may have dims.
bool few_dims(ModelReader& reader, const JsonTree& tree, uint32_t map, std::string_view what) {
  size_t count = 0;
  for (uint32_t i = map + 1; i < tree.nodes[map].end; i = tree.nodes[i].end) ++count;
  if (count <= kMaxDims) return true;
  report_error(reader, Code::DimsShapeMismatch, tree.nodes[map],
               fmt::format("{} names {} dims, more than {}", what, count, kMaxDims));
  return false;
}

void read_segments(ModelReader& reader, const JsonTree& tree, uint32_t at, PendingDims& pending) {
  const JsonNode& map = tree.nodes[at];
  if (!expect(reader, map, JsonKind::Object, "`segments`") || !few_dims(reader, tree, at, "`segments`")) return;
  for (uint32_t i = at + 1; i < map.end; i = tree.nodes[i].end) {
    const JsonNode& list = tree.nodes[i];
    if (!expect(reader, list, JsonKind::Array, "the segments of a dim")) return;
    if (list.end - i - 1 > kMaxSegments) {
      return report_error(reader, Code::NestingTooDeep, list,
                          fmt::format("a dim has more than {} segments", kMaxSegments));
    }
    std::vector<int64_t> sizes;
    for (uint32_t k = i + 1; k < list.end; k = tree.nodes[k].end) {
      if (!expect(reader, tree.nodes[k], JsonKind::Integer, "a segment's size")) return;
      if (tree.nodes[k].integer < 0) {
        return report_error(reader, Code::DimsShapeMismatch, tree.nodes[k], "a segment's size is negative");
      }
      sizes.push_back(tree.nodes[k].integer);
    }
    pending.segments.emplace_back(list.key, std::move(sizes), list.key_offset);
  }
}

void read_granularity(ModelReader& reader, const JsonTree& tree, uint32_t at, PendingDims& pending) {
  const JsonNode& map = tree.nodes[at];
  if (!expect(reader, map, JsonKind::Object, "`granularity`") || !few_dims(reader, tree, at, "`granularity`")) return;
  for (uint32_t i = at + 1; i < map.end; i = tree.nodes[i].end) {
    const JsonNode& granule = tree.nodes[i];
    if (!expect(reader, granule, JsonKind::Integer, "a granularity")) return;
    if (granule.integer < 1) {
      return report_error(reader, Code::DimsShapeMismatch, granule, "a granularity is below 1");
    }
    pending.granularity.emplace_back(granule.key, granule.integer, granule.key_offset);
  }
}

void read_param(ModelReader& reader, const JsonTree& tree, uint32_t at, ModuleId module, bool is_buffer) {
  const JsonNode& entry = tree.nodes[at];
  if (entry.kind != JsonKind::Object) {
    report_wrong_kind(reader, entry, JsonKind::Object, fmt::format("parameter `{}`", entry.key));
    return;
  }
  Param param{
      .name = entry.key, .offset = static_cast<uint32_t>(entry.key_offset), .module = module, .is_buffer = is_buffer};
  const auto [shape, dtype, dims, logical, segments, granularity] =
      find_json_fields(reader, tree, at, "a parameter", kParamKeys);
  if (shape == 0 || dtype == 0) {
    return report_error(reader, Code::MissingModelField, key_span(reader.graph.file, entry),
                        fmt::format("`{}` has no `{}`", entry.key, shape == 0 ? "shape" : "dtype"));
  }
  if (!read_shape(reader, tree, shape, param)) return;
  if (!read_dtype(reader, tree.nodes[dtype], param)) return;
  std::vector<Param>& list = is_buffer ? reader.graph.buffers : reader.graph.params;
  if (dims != 0 || logical != 0 || segments != 0 || granularity != 0) {
    param.extras = static_cast<uint32_t>(reader.graph.extras.size());
    ParamExtras& extras = reader.graph.extras.emplace_back();
    const auto id = static_cast<ParamId>(list.size());
    PendingDims pending{.extras = param.extras, .param = id, .is_buffer = is_buffer, .segments = {}, .granularity = {}};
    if (dims != 0) read_dims(reader, tree, dims, param, extras);
    if (logical != 0) read_logical_axes(reader, tree, logical, param, extras);
    if (segments != 0) read_segments(reader, tree, segments, pending);
    if (granularity != 0) read_granularity(reader, tree, granularity, pending);
    reader.pending.push_back(std::move(pending));
  }
  list.push_back(param);
}

}  // namespace

void read_params(ModelReader& reader, const JsonTree& tree, uint32_t at, ModuleId module, bool are_buffers) {
  const JsonNode& map = tree.nodes[at];
  if (!expect(reader, map, JsonKind::Object, are_buffers ? "`buffers`" : "`parameters`")) return;
  for (uint32_t i = at + 1; i < map.end && !too_many_errors(reader); i = tree.nodes[i].end) {
    if (check_length(reader, tree.nodes[i].key, key_span(reader.graph.file, tree.nodes[i]))) {
      read_param(reader, tree, i, module, are_buffers);
    }
  }
}

}  // namespace tpplan
