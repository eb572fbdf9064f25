#include "manifest/read_manifest.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <unordered_map>

#include "base/json_reader.h"
#include "base/string_index.h"

namespace tpplan {
namespace {

struct ManifestReader {
  Manifest& manifest;
  Diagnostics& diagnostics;
  bool has_format = false, has_mesh = false, has_parameters = false, has_totals = false;
  ManifestTotals written;
  Span totals_span;
  uint32_t largest_init = 0;  // that a parameter names, and where it does
  Span init_span;
  std::unordered_map<std::string, uint32_t> layout_index;
  StringIndex paths;
  std::vector<bool> is_tied;
};

bool fault(ManifestReader& reader, Code code, Span span, std::string message) {
  report_message(reader.diagnostics, code, span, std::move(message),
                 code == Code::TP7002 ? "a manifest is not edited by hand: compile the plan again" : "tpplan compile writes manifests");
  return false;
}

bool expect(ManifestReader& reader, const JsonNode& node, JsonKind kind, std::string_view what) {
  if (node.kind == kind) return true;
  return fault(reader, Code::TP7001, value_span(Source::Manifest, node), fmt::format("{} is {}, not {}", what, json_kind_name(node.kind), json_kind_name(kind)));
}

// The member of an object, of this kind; 0 after reporting that it is not.
uint32_t member(ManifestReader& reader, const JsonTree& tree, uint32_t object, std::string_view key, JsonKind kind) {
  const uint32_t at = find_member(tree, object, key);
  if (at == 0) {
    fault(reader, Code::TP7001, value_span(Source::Manifest, tree.nodes[object]), fmt::format("`{}` is missing", key));
    return 0;
  }
  return expect(reader, tree.nodes[at], kind, fmt::format("`{}`", key)) ? at : 0;
}

// A member that may be absent or null (`at` is 0 then), and is of this kind otherwise.
bool optional_member(ManifestReader& reader, const JsonTree& tree, uint32_t object, std::string_view key, JsonKind kind, uint32_t& at) {
  at = find_member(tree, object, key);
  if (at != 0 && tree.nodes[at].kind == JsonKind::Null) at = 0;
  return at == 0 || expect(reader, tree.nodes[at], kind, fmt::format("`{}`", key));
}

// The index of a rule of the manifest, or kNoRule where it is null.
bool read_rule_index(ManifestReader& reader, const JsonTree& tree, uint32_t object, uint32_t& rule) {
  uint32_t at = 0;
  if (!optional_member(reader, tree, object, "rule", JsonKind::Integer, at)) return false;
  if (at == 0) return true;
  const int64_t index = tree.nodes[at].integer;
  if (index < 0 || static_cast<uint64_t>(index) >= reader.manifest.rules.size()) {
    return fault(reader, Code::TP7002, value_span(Source::Manifest, tree.nodes[at]), fmt::format("there is no rule {}", index));
  }
  rule = static_cast<uint32_t>(index);
  return true;
}

template <typename Visit>
bool for_each(const JsonTree& tree, uint32_t at, Visit visit) {
  for (uint32_t i = at + 1; i < tree.nodes[at].end; i = tree.nodes[i].end) {
    if (!visit(i)) return false;
  }
  return true;
}

bool read_sizes(ManifestReader& reader, const JsonTree& tree, uint32_t at, std::vector<int64_t>& sizes) {
  if (!expect(reader, tree.nodes[at], JsonKind::Array, "a list of sizes")) return false;
  return for_each(tree, at, [&](uint32_t i) {
    sizes.push_back(tree.nodes[i].integer);
    return expect(reader, tree.nodes[i], JsonKind::Integer, "a size") && (tree.nodes[i].integer >= 0 || fault(reader, Code::TP7001, value_span(Source::Manifest, tree.nodes[i]), "a size is negative"));
  });
}

bool read_axis(ManifestReader& reader, const JsonNode& node, AxisId& axis) {
  if (!expect(reader, node, JsonKind::String, "an axis")) return false;
  axis = find_axis(reader.manifest.mesh, node.text);
  return axis != kNoAxis || fault(reader, Code::TP7002, value_span(Source::Manifest, node), fmt::format("`{}` is not an axis of the mesh", node.text));
}

bool read_mesh(ManifestReader& reader, const JsonTree& tree) {
  reader.has_mesh = true;
  if (!expect(reader, tree.nodes[0], JsonKind::Array, "`mesh`")) return false;
  unsigned __int128 devices = 1;
  return for_each(tree, 0, [&](uint32_t i) {
    if (!expect(reader, tree.nodes[i], JsonKind::Object, "a mesh axis")) return false;
    const uint32_t name = member(reader, tree, i, "name", JsonKind::String), size = member(reader, tree, i, "size", JsonKind::Integer);
    if (name == 0 || size == 0) return false;
    const std::string axis(tree.nodes[name].text);
    const int64_t ways = tree.nodes[size].integer;
    devices *= static_cast<unsigned __int128>(std::max<int64_t>(ways, 1));
    const bool good = ways >= 1 && devices < (static_cast<unsigned __int128>(1) << 31) && find_axis(reader.manifest.mesh, axis) == kNoAxis && reader.manifest.mesh.axes.size() < kMaxAxes;
    if (!good) return fault(reader, Code::TP7002, value_span(Source::Manifest, tree.nodes[size]), fmt::format("axis `{}` of size {} stands twice, or makes the mesh too large", axis, ways));
    reader.manifest.mesh.axes.push_back({axis, ways});
    return true;
  });
}

bool read_spec(ManifestReader& reader, const JsonTree& tree, uint32_t at, PartitionSpec& spec) {
  return for_each(tree, at, [&](uint32_t i) {
    DimAxes& axes = spec.emplace_back();
    if (tree.nodes[i].kind == JsonKind::Null) return true;
    if (tree.nodes[i].kind != JsonKind::Array) return read_axis(reader, tree.nodes[i], axes.emplace_back());
    return for_each(tree, i, [&](uint32_t k) { return read_axis(reader, tree.nodes[k], axes.emplace_back()); });
  });
}

bool read_segments(ManifestReader& reader, const JsonTree& tree, uint32_t at, size_t ndim, std::vector<DimSegments>& segments) {
  if (!expect(reader, tree.nodes[at], JsonKind::Object, "`segments`")) return false;
  return for_each(tree, at, [&](uint32_t i) {
    DimSegments& entry = segments.emplace_back();
    for (entry.dim = 0; entry.dim < ndim && std::to_string(entry.dim) != tree.nodes[i].key;) ++entry.dim;
    if (entry.dim == ndim) return fault(reader, Code::TP7002, key_span(Source::Manifest, tree.nodes[i]), fmt::format("segments of dim `{}`, which there is not", tree.nodes[i].key));
    return read_sizes(reader, tree, i, entry.sizes);
  });
}

bool read_placements(ManifestReader& reader, const JsonTree& tree, uint32_t at, std::optional<std::vector<Placement>>& placements) {
  if (tree.nodes[at].kind == JsonKind::Null) return true;
  if (!expect(reader, tree.nodes[at], JsonKind::Array, "`placements`")) return false;
  placements.emplace();
  return for_each(tree, at, [&](uint32_t i) {
    if (!expect(reader, tree.nodes[i], JsonKind::String, "a placement")) return false;
    return parse_placement(tree.nodes[i].text, placements->emplace_back()) || fault(reader, Code::TP7001, value_span(Source::Manifest, tree.nodes[i]), fmt::format("unknown placement `{}`", tree.nodes[i].text));
  });
}

bool read_local_shapes(ManifestReader& reader, const JsonTree& tree, uint32_t object, ParamLayout& layout) {
  const uint32_t single = find_member(tree, object, "local_shape"), many = find_member(tree, object, "local_shapes");
  if (single != 0 && tree.nodes[single].kind == JsonKind::Array) return read_sizes(reader, tree, single, layout.local_shapes.emplace_back());
  if (many == 0) return fault(reader, Code::TP7001, value_span(Source::Manifest, tree.nodes[object]), "`local_shape` is missing");
  if (!expect(reader, tree.nodes[many], JsonKind::Array, "`local_shapes`")) return false;
  return for_each(tree, many, [&](uint32_t i) { return read_sizes(reader, tree, i, layout.local_shapes.emplace_back()); });
}

bool read_grad_reduce(ManifestReader& reader, const JsonTree& tree, uint32_t object, ParamLayout& layout) {
  const uint32_t at = member(reader, tree, object, "grad_reduce", JsonKind::Array);
  return at != 0 && for_each(tree, at, [&](uint32_t i) {
    if (!expect(reader, tree.nodes[i], JsonKind::Object, "a gradient's reduction")) return false;
    const uint32_t axis = member(reader, tree, i, "axis", JsonKind::String), kind = member(reader, tree, i, "kind", JsonKind::String);
    if (axis == 0 || kind == 0) return false;
    GradReduce& reduce = layout.grad_reduce.emplace_back();
    reduce.kind = tree.nodes[kind].text == "reduce_scatter" ? GradReduceKind::ReduceScatter : GradReduceKind::AllReduce;
    return read_axis(reader, tree.nodes[axis], reduce.axis);
  });
}

// What is written must be what the spec says.
bool prove_layout(ManifestReader& reader, const ParamLayout& layout, std::string_view path, Span span) {
  const Mesh& mesh = reader.manifest.mesh;
  const auto contradiction = [&](std::string_view what) { return fault(reader, Code::TP7002, span, fmt::format("{} of `{}` is not what its spec {} says", what, path, to_text(layout.sharding.spec, mesh))); };
  if (layout.sharding.spec.size() != layout.shape.size()) return fault(reader, Code::TP7002, span, fmt::format("the spec of `{}` does not fit its shape", path));
  unsigned __int128 elements = 1;
  for (const int64_t size : layout.shape) {
    if (size > 0 && elements < (static_cast<unsigned __int128>(1) << 63)) elements *= static_cast<unsigned __int128>(size);
  }
  if (elements >= (static_cast<unsigned __int128>(1) << 63)) return fault(reader, Code::TP7002, span, fmt::format("`{}` has 2^63 elements or more", path));
  if (!check_sharding(layout.shape, layout.sharding, mesh, reader.manifest.uneven).empty()) return fault(reader, Code::TP7002, span, fmt::format("the spec {} of `{}` is not legal for its shape", to_text(layout.sharding.spec, mesh), path));
  if (layout.placements != placements_of(layout.sharding, mesh)) return contradiction("`placements`");
  const auto shapes = list_local_shapes(layout.shape, layout.sharding, mesh);
  if (shapes.empty() || layout.local_shapes != shapes) return contradiction("`local_shape`");
  if (layout.replicas != device_count(mesh) / shard_count(layout.sharding.spec, mesh)) return contradiction("`replicas`");
  return true;
}

bool read_names(ManifestReader& reader, const JsonTree& tree, uint32_t at, std::vector<std::string>& names, std::string_view what) {
  if (!expect(reader, tree.nodes[at], JsonKind::Array, fmt::format("a list of {}s", what))) return false;
  return for_each(tree, at, [&](uint32_t i) {
    names.emplace_back(tree.nodes[i].text);
    return expect(reader, tree.nodes[i], JsonKind::String, fmt::format("a {}", what));
  });
}

// What the parameter's module computes, and its dims by name. Manifests that were written before have neither.
bool read_kind(ManifestReader& reader, const JsonTree& tree, ParamLayout& layout) {
  static constexpr std::string_view kinds[] = {"linear", "embedding", "norm"};
  uint32_t kind = 0, dims = 0;
  if (!optional_member(reader, tree, 0, "kind", JsonKind::String, kind) || !optional_member(reader, tree, 0, "dims", JsonKind::Array, dims)) return false;
  if (kind != 0) layout.kind = tree.nodes[kind].text;
  if (kind != 0 && std::find(std::begin(kinds), std::end(kinds), layout.kind) == std::end(kinds)) {
    return fault(reader, Code::TP7001, value_span(Source::Manifest, tree.nodes[kind]), fmt::format("unknown kind `{}`", layout.kind));
  }
  if (dims != 0 && !read_names(reader, tree, dims, layout.dims, "dim")) return false;
  if (dims == 0 || layout.dims.size() == layout.shape.size()) return true;
  return fault(reader, Code::TP7002, value_span(Source::Manifest, tree.nodes[dims]), fmt::format("{} names of dims for {} dims", layout.dims.size(), layout.shape.size()));
}

bool read_init_index(ManifestReader& reader, const JsonTree& tree, ParamLayout& layout) {
  uint32_t at = 0;
  if (!optional_member(reader, tree, 0, "init", JsonKind::Integer, at)) return false;
  if (at == 0) return true;
  const int64_t index = tree.nodes[at].integer;
  if (index < 0 || index >= kNoInit) return fault(reader, Code::TP7002, value_span(Source::Manifest, tree.nodes[at]), fmt::format("there is no distribution {}", index));
  layout.init = static_cast<uint32_t>(index);
  if (reader.init_span.length == 0 || layout.init > reader.largest_init) {
    reader.largest_init = layout.init;
    reader.init_span = value_span(Source::Manifest, tree.nodes[at]);
  }
  return true;
}

bool read_layout(ManifestReader& reader, const JsonTree& tree, ParamLayout& layout) {
  const uint32_t shape = member(reader, tree, 0, "shape", JsonKind::Array), dtype = member(reader, tree, 0, "dtype", JsonKind::String),
                 spec = member(reader, tree, 0, "spec", JsonKind::Array), reason = member(reader, tree, 0, "reason", JsonKind::String),
                 replicas = member(reader, tree, 0, "replicas", JsonKind::Integer);
  const uint32_t placements = find_member(tree, 0, "placements"), segments = find_member(tree, 0, "segments");
  uint32_t style = 0;
  if (shape == 0 || dtype == 0 || spec == 0 || reason == 0 || replicas == 0) return false;
  if (placements == 0) return fault(reader, Code::TP7001, value_span(Source::Manifest, tree.nodes[0]), "`placements` is missing");
  if (!optional_member(reader, tree, 0, "style", JsonKind::String, style) || !read_rule_index(reader, tree, 0, layout.rule)) return false;
  if (!find_dtype(tree.nodes[dtype].text, layout.dtype)) return fault(reader, Code::TP7001, value_span(Source::Manifest, tree.nodes[dtype]), fmt::format("unknown dtype `{}`", tree.nodes[dtype].text));
  if (style != 0) layout.style = tree.nodes[style].text;
  layout.reason = tree.nodes[reason].text;
  layout.replicas = tree.nodes[replicas].integer;
  return read_sizes(reader, tree, shape, layout.shape) && read_spec(reader, tree, spec, layout.sharding.spec) &&
         read_placements(reader, tree, placements, layout.placements) &&
         (segments == 0 || read_segments(reader, tree, segments, layout.shape.size(), layout.sharding.segments)) &&
         read_local_shapes(reader, tree, 0, layout) && read_grad_reduce(reader, tree, 0, layout) && read_kind(reader, tree, layout) && read_init_index(reader, tree, layout);
}

bool read_param(ManifestReader& reader, const JsonTree& tree, const std::string& text, bool is_buffer) {
  Manifest& manifest = reader.manifest;
  if (!reader.has_mesh) return fault(reader, Code::TP7001, value_span(Source::Manifest, tree.nodes[0]), "`parameters` stand before the mesh");
  if (!expect(reader, tree.nodes[0], JsonKind::Object, "a parameter")) return false;
  const uint32_t path = member(reader, tree, 0, "path", JsonKind::String);
  if (path == 0) return false;
  // Parameters that are written alike but for the path share a layout: the text behind the path is the key.
  const JsonNode& path_node = tree.nodes[path];
  const uint32_t next = path_node.end < tree.nodes[0].end ? path_node.end : 0;
  ManifestParam param{.name_begin = manifest.names.size(), .name_length = static_cast<uint32_t>(path_node.text.size()), .layout = 0};
  std::string key;
  if (next != 0) {
    const size_t begin = tree.nodes[next].key_offset;
    key.assign(text, begin, tree.end - begin);
  }
  const auto known = path == 1 && !key.empty() ? reader.layout_index.find(key) : reader.layout_index.end();
  if (known != reader.layout_index.end()) {
    param.layout = known->second;
  } else {
    ParamLayout layout;
    if (!read_layout(reader, tree, layout) || !prove_layout(reader, layout, path_node.text, value_span(Source::Manifest, path_node))) return false;
    param.layout = static_cast<uint32_t>(manifest.layouts.size());
    manifest.layouts.push_back(std::move(layout));
    if (path == 1 && !key.empty()) reader.layout_index.emplace(std::move(key), param.layout);
  }
  manifest.names += path_node.text;
  std::vector<ManifestParam>& list = is_buffer ? manifest.buffers : manifest.parameters;
  list.push_back(param);
  if (is_buffer) return true;
  const auto name_of = [&](uint32_t i) { return path_of(manifest, manifest.parameters[i]); };
  if (insert(reader.paths, path_node.text, static_cast<uint32_t>(list.size() - 1), name_of) == kNotFound) return true;
  return fault(reader, Code::TP7002, value_span(Source::Manifest, path_node), fmt::format("`{}` stands twice", path_node.text));
}

// One group of names of one tensor.
bool read_tie(ManifestReader& reader, const JsonTree& tree) {
  if (!expect(reader, tree.nodes[0], JsonKind::Array, "a group of tied names")) return false;
  const Manifest& manifest = reader.manifest;
  const auto name_of = [&](uint32_t i) { return path_of(manifest, manifest.parameters[i]); };
  std::vector<uint32_t> names;
  reader.is_tied.resize(manifest.parameters.size());
  const bool read = for_each(tree, 0, [&](uint32_t i) {
    const Span place = value_span(Source::Manifest, tree.nodes[i]);
    if (!expect(reader, tree.nodes[i], JsonKind::String, "a tied name")) return false;
    const uint32_t param = find(reader.paths, tree.nodes[i].text, name_of);
    if (param == kNotFound) return fault(reader, Code::TP7002, place, fmt::format("tied name `{}` is not a parameter that stands before it", tree.nodes[i].text));
    if (reader.is_tied[param]) return fault(reader, Code::TP7002, place, fmt::format("`{}` is tied twice", tree.nodes[i].text));
    reader.is_tied[param] = true;
    names.push_back(param);
    const ParamLayout &first = layout_of(manifest, manifest.parameters[names[0]]), &other = layout_of(manifest, manifest.parameters[param]);
    if (first.shape == other.shape && first.dtype == other.dtype && first.sharding == other.sharding) return true;
    return fault(reader, Code::TP7002, place, fmt::format("tied names `{}` and `{}` are not cut alike", name_of(names[0]), name_of(param)));
  });
  if (!read) return false;
  if (names.size() < 2) return fault(reader, Code::TP7002, value_span(Source::Manifest, tree.nodes[0]), "a tie names fewer than two parameters");
  reader.manifest.tied.push_back(std::move(names));
  return true;
}

bool read_rule(ManifestReader& reader, const JsonTree& tree) {
  if (!expect(reader, tree.nodes[0], JsonKind::Object, "a rule")) return false;
  const uint32_t key = member(reader, tree, 0, "key", JsonKind::String), line = member(reader, tree, 0, "line", JsonKind::Integer),
                 matches = member(reader, tree, 0, "matches", JsonKind::Integer), block = find_member(tree, 0, "block");
  if (key == 0 || line == 0 || matches == 0) return false;
  ManifestRule& rule = reader.manifest.rules.emplace_back();
  rule.key = tree.nodes[key].text;
  rule.line = static_cast<uint32_t>(tree.nodes[line].integer);
  rule.matches = static_cast<uint64_t>(tree.nodes[matches].integer);
  rule.in_block = block != 0;
  if (block != 0) rule.block = tree.nodes[block].text;
  return true;
}

bool read_collectives(ManifestReader& reader, const JsonTree& tree, uint32_t at, std::vector<Collective>& steps) {
  static constexpr CollectiveKind kinds[] = {CollectiveKind::AllGather, CollectiveKind::AllReduce, CollectiveKind::ReduceScatter, CollectiveKind::AllToAll, CollectiveKind::LocalSlice};
  if (!expect(reader, tree.nodes[at], JsonKind::Array, "collectives")) return false;
  return for_each(tree, at, [&](uint32_t i) {
    if (!expect(reader, tree.nodes[i], JsonKind::Object, "a collective")) return false;
    const uint32_t kind = member(reader, tree, i, "kind", JsonKind::String), axis = member(reader, tree, i, "axis", JsonKind::String);
    if (kind == 0 || axis == 0) return false;
    Collective& step = steps.emplace_back();
    const auto found = std::find_if(std::begin(kinds), std::end(kinds), [&](CollectiveKind k) { return to_text(k) == tree.nodes[kind].text; });
    if (found == std::end(kinds)) return fault(reader, Code::TP7001, value_span(Source::Manifest, tree.nodes[kind]), fmt::format("unknown collective `{}`", tree.nodes[kind].text));
    step.kind = *found;
    for (const auto& [name, target] : {std::pair{"dim", &step.dim}, std::pair{"from_dim", &step.from_dim}}) {
      uint32_t dim = 0;
      if (!optional_member(reader, tree, i, name, JsonKind::Integer, dim)) return false;
      if (dim != 0) *target = static_cast<int>(tree.nodes[dim].integer);
    }
    return read_axis(reader, tree.nodes[axis], step.axis);
  });
}

bool read_values(ManifestReader& reader, const JsonTree& tree, std::string_view key, std::vector<ManifestValue>& values) {
  const uint32_t at = member(reader, tree, 0, key, JsonKind::Array);
  return at != 0 && for_each(tree, at, [&](uint32_t i) {
    if (!expect(reader, tree.nodes[i], JsonKind::Object, "a boundary value")) return false;
    ManifestValue& value = values.emplace_back();
    uint32_t arg = 0, kwarg = 0, local = 0;
    if (!optional_member(reader, tree, i, "arg", JsonKind::Integer, arg) || !optional_member(reader, tree, i, "kwarg", JsonKind::String, kwarg) ||
        !optional_member(reader, tree, i, "use_local", JsonKind::Bool, local)) return false;
    if (arg != 0) value.arg = static_cast<int>(tree.nodes[arg].integer);
    if (kwarg != 0) value.kwarg = tree.nodes[kwarg].text;
    if (local != 0) value.use_local = tree.nodes[local].is_true;
    const uint32_t from = find_member(tree, i, "from"), to = find_member(tree, i, "to"), forward = find_member(tree, i, "forward"), backward = find_member(tree, i, "backward");
    return (from == 0 || read_placements(reader, tree, from, value.from)) && (to == 0 || read_placements(reader, tree, to, value.to)) &&
           (forward == 0 || read_collectives(reader, tree, forward, value.forward)) && (backward == 0 || read_collectives(reader, tree, backward, value.backward));
  });
}

bool read_module(ManifestReader& reader, const JsonTree& tree) {
  if (!expect(reader, tree.nodes[0], JsonKind::Object, "a module")) return false;
  const uint32_t path = member(reader, tree, 0, "path", JsonKind::String), style = member(reader, tree, 0, "style", JsonKind::String);
  if (path == 0 || style == 0) return false;
  Manifest& manifest = reader.manifest;
  const std::string_view text = tree.nodes[path].text;
  manifest.modules.push_back({.name_begin = manifest.names.size(), .name_length = static_cast<uint32_t>(text.size()),
                              .layout = static_cast<uint32_t>(manifest.module_layouts.size())});
  manifest.names += text;
  ModuleLayout& layout = manifest.module_layouts.emplace_back();
  layout.style = tree.nodes[style].text;
  return read_rule_index(reader, tree, 0, layout.rule) && read_values(reader, tree, "inputs", layout.inputs) && read_values(reader, tree, "outputs", layout.outputs);
}

bool read_data(ManifestReader& reader, const JsonTree& tree) {
  if (tree.nodes[0].kind == JsonKind::Null) return true;
  if (!expect(reader, tree.nodes[0], JsonKind::Object, "`data`")) return false;
  const uint32_t axes = member(reader, tree, 0, "axes", JsonKind::Array), dim = member(reader, tree, 0, "dim", JsonKind::Integer);
  if (axes == 0 || dim == 0) return false;
  ManifestData& data = reader.manifest.data.emplace();
  data.dim = static_cast<int>(tree.nodes[dim].integer);
  return for_each(tree, axes, [&](uint32_t i) { return read_axis(reader, tree.nodes[i], data.axes.emplace_back()); });
}

bool read_fsdp(ManifestReader& reader, const JsonTree& tree) {
  if (tree.nodes[0].kind == JsonKind::Null) return true;
  if (!expect(reader, tree.nodes[0], JsonKind::Object, "`fsdp`")) return false;
  const uint32_t axis = member(reader, tree, 0, "axis", JsonKind::String), units = member(reader, tree, 0, "units", JsonKind::Array);
  if (axis == 0 || units == 0) return false;
  ManifestFsdp& fsdp = reader.manifest.fsdp.emplace();
  uint32_t policy = 0, size = 0;
  if (!optional_member(reader, tree, 0, "policy", JsonKind::String, policy) || !optional_member(reader, tree, 0, "min_weight_size", JsonKind::Integer, size)) return false;
  if (policy != 0) fsdp.policy = tree.nodes[policy].text;
  if (size != 0) fsdp.min_weight_size = tree.nodes[size].integer;
  return read_axis(reader, tree.nodes[axis], fsdp.axis) && read_names(reader, tree, units, fsdp.units, "path");
}

double number_of(const JsonNode& node) {
  double value = static_cast<double>(node.integer);
  if (node.kind == JsonKind::Number && !parse_number(node.text, value)) value = std::numeric_limits<double>::infinity();
  return value;
}

bool read_number(ManifestReader& reader, const JsonNode& node, double& value) {
  value = number_of(node);
  return node.kind == JsonKind::Integer || expect(reader, node, JsonKind::Number, "an argument of a distribution");
}

bool read_distribution(ManifestReader& reader, const JsonTree& tree, uint32_t at) {
  Distribution& distribution = reader.manifest.distributions.emplace_back();
  const JsonNode& node = tree.nodes[at];
  const bool has_arguments = node.kind == JsonKind::Object && at + 1 < node.end && tree.nodes[at + 1].end == node.end;
  const std::string_view name = node.kind == JsonKind::String ? node.text : has_arguments ? tree.nodes[at + 1].key : std::string_view();
  const auto unknown = [&] { return fault(reader, Code::TP7001, value_span(Source::Manifest, node), fmt::format("unknown distribution `{}`", name)); };
  if (!find_distribution(name, distribution.kind)) return unknown();
  const DistributionRow& row = distribution_table()[static_cast<size_t>(distribution.kind)];
  if (has_arguments != (row.argument_count > 0)) return unknown();
  if (row.argument_count == 1 && !read_number(reader, tree.nodes[at + 1], distribution.arguments[0])) return false;
  if (row.argument_count == 2 && !expect(reader, tree.nodes[at + 1], JsonKind::Object, fmt::format("`{}`", row.name))) return false;
  for (size_t i = 0; row.argument_count == 2 && i < 2; ++i) {
    const uint32_t argument = find_member(tree, at + 1, row.arguments[i]);
    if (argument == 0) return fault(reader, Code::TP7001, value_span(Source::Manifest, tree.nodes[at + 1]), fmt::format("`{}` is missing", row.arguments[i]));
    if (!read_number(reader, tree.nodes[argument], distribution.arguments[i])) return false;
  }
  const std::string_view wrong = fault_of(distribution);
  return wrong.empty() || fault(reader, Code::TP7002, value_span(Source::Manifest, node), fmt::format("{} in `{}`", wrong, row.name));
}

// Manifests that were written before name the algorithm only.
bool read_init(ManifestReader& reader, const JsonTree& tree) {
  if (!expect(reader, tree.nodes[0], JsonKind::Object, "`init`")) return false;
  const uint32_t algorithm = member(reader, tree, 0, "algorithm", JsonKind::String);
  uint32_t list = 0;
  if (algorithm == 0 || !optional_member(reader, tree, 0, "distributions", JsonKind::Array, list)) return false;
  if (tree.nodes[algorithm].text != kInitAlgorithm) return fault(reader, Code::TP7001, value_span(Source::Manifest, tree.nodes[algorithm]), fmt::format("unknown algorithm `{}`", tree.nodes[algorithm].text));
  return list == 0 || for_each(tree, list, [&](uint32_t i) { return read_distribution(reader, tree, i); });
}

bool read_totals(ManifestReader& reader, const JsonTree& tree) {
  reader.has_totals = true;
  reader.totals_span = value_span(Source::Manifest, tree.nodes[0]);
  if (!expect(reader, tree.nodes[0], JsonKind::Object, "`totals`")) return false;
  ManifestTotals& t = reader.written;
  for (const auto& [key, target] : {std::pair{"parameters", &t.parameters}, std::pair{"elements", &t.elements}, std::pair{"bytes", &t.bytes}, std::pair{"max_bytes_per_rank", &t.max_bytes_per_rank},
                                    std::pair{"ideal_bytes_per_rank", &t.ideal_bytes_per_rank}, std::pair{"replicated_bytes_per_rank", &t.replicated_bytes_per_rank}}) {
    const uint32_t at = member(reader, tree, 0, key, JsonKind::Integer);
    if (at == 0) return false;
    *target = static_cast<uint64_t>(tree.nodes[at].integer);
  }
  const uint32_t per_rank = find_member(tree, 0, "bytes_per_rank");
  if (per_rank == 0 || tree.nodes[per_rank].kind != JsonKind::Array) return true;
  return for_each(tree, per_rank, [&](uint32_t i) {
    t.bytes_per_rank.push_back(static_cast<uint64_t>(tree.nodes[i].integer));
    return expect(reader, tree.nodes[i], JsonKind::Integer, "a rank's bytes");
  });
}

bool read_inputs(ManifestReader& reader, const JsonTree& tree) {
  if (!expect(reader, tree.nodes[0], JsonKind::Object, "`inputs`")) return false;
  const uint32_t model = member(reader, tree, 0, "model", JsonKind::Object), plan = member(reader, tree, 0, "plan", JsonKind::Object);
  if (model == 0 || plan == 0) return false;
  const uint32_t name = member(reader, tree, model, "name", JsonKind::String), model_hash = member(reader, tree, model, "sha256", JsonKind::String),
                 plan_hash = member(reader, tree, plan, "sha256", JsonKind::String);
  if (name == 0 || model_hash == 0 || plan_hash == 0) return false;
  reader.manifest.model_name = tree.nodes[name].text;
  reader.manifest.model_sha256 = tree.nodes[model_hash].text;
  reader.manifest.plan_sha256 = tree.nodes[plan_hash].text;
  return true;
}

bool read_format(ManifestReader& reader, const JsonTree& tree) {
  reader.has_format = true;
  if (!expect(reader, tree.nodes[0], JsonKind::String, "`format`")) return false;
  return tree.nodes[0].text == kManifestFormat || fault(reader, Code::TP7001, value_span(Source::Manifest, tree.nodes[0]), fmt::format("format `{}` is not `{}`", tree.nodes[0].text, kManifestFormat));
}

bool read_uneven(ManifestReader& reader, const JsonTree& tree) {
  if (!expect(reader, tree.nodes[0], JsonKind::String, "`uneven`")) return false;
  reader.manifest.uneven = tree.nodes[0].text == "torch" ? UnevenPolicy::Torch : UnevenPolicy::Error;
  return tree.nodes[0].text == "torch" || tree.nodes[0].text == "error" || fault(reader, Code::TP7001, value_span(Source::Manifest, tree.nodes[0]), "`uneven` is neither error nor torch");
}

struct MemberRow {
  std::string_view key;
  JsonMember mode;
  bool (*read)(ManifestReader&, const JsonTree&);
};

constexpr MemberRow kMembers[] = {
    {"format", JsonMember::Whole, read_format}, {"inputs", JsonMember::Whole, read_inputs}, {"mesh", JsonMember::Whole, read_mesh},
    {"uneven", JsonMember::Whole, read_uneven}, {"rules", JsonMember::Elements, read_rule}, {"modules", JsonMember::Elements, read_module},
    {"tied", JsonMember::Elements, read_tie},
    {"init", JsonMember::Whole, read_init},     {"data", JsonMember::Whole, read_data},     {"fsdp", JsonMember::Whole, read_fsdp},     {"totals", JsonMember::Whole, read_totals},
    {"remat", JsonMember::Whole, [](ManifestReader& reader, const JsonTree& tree) { return read_names(reader, tree, 0, reader.manifest.remat, "path"); }},
};

bool same_totals(const ManifestTotals& a, const ManifestTotals& b) {
  return a.max_bytes_per_rank == b.max_bytes_per_rank && a.bytes_per_rank == b.bytes_per_rank && a.bytes == b.bytes && a.elements == b.elements && a.parameters == b.parameters &&
         a.ideal_bytes_per_rank == b.ideal_bytes_per_rank && a.replicated_bytes_per_rank == b.replicated_bytes_per_rank;
}

void finish(ManifestReader& reader) {
  const std::pair<bool, std::string_view> required[] = {{reader.has_format, "format"}, {reader.has_mesh, "mesh"}, {reader.has_parameters, "parameters"}, {reader.has_totals, "totals"}};
  for (const auto& [present, key] : required) {
    if (!present) {
      fault(reader, Code::TP7001, {Source::Manifest, 0, 1}, fmt::format("the manifest has no `{}`", key));
      return;
    }
  }
  if (reader.init_span.length > 0 && reader.largest_init >= reader.manifest.distributions.size()) {
    fault(reader, Code::TP7002, reader.init_span, fmt::format("there is no distribution {}", reader.largest_init));
  }
  sum_totals(reader.manifest);
  if (!same_totals(reader.manifest.totals, reader.written)) fault(reader, Code::TP7002, reader.totals_span, "`totals` are not the sums over the parameters");
  reader.manifest.totals = reader.written;
}

}  // namespace

Manifest read_manifest(const SourceFile& file, Diagnostics& diagnostics) {
  Manifest manifest;
  ManifestReader reader{.manifest = manifest, .diagnostics = diagnostics, .written = {}, .totals_span = {}, .init_span = {}, .layout_index = {}, .paths = {}, .is_tied = {}};
  std::deque<std::string> strings;
  const auto row_of = [](std::string_view key) { return std::find_if(std::begin(kMembers), std::end(kMembers), [key](const MemberRow& row) { return row.key == key; }); };
  const JsonVisitor visitor{
      .member =
          [&](std::string_view key, Span) {
            if (key == "parameters" || key == "buffers") {
              reader.has_parameters = reader.has_parameters || key == "parameters";
              return JsonMember::Elements;
            }
            const MemberRow* row = row_of(key);
            return row == std::end(kMembers) ? JsonMember::Skip : row->mode;
          },
      .value =
          [&](std::string_view key, const JsonTree& tree) {
            if (key == "parameters" || key == "buffers") return read_param(reader, tree, file.text, key == "buffers");
            return row_of(key)->read(reader, tree);
          }};
  const bool whole = read_json(file, Source::Manifest, visitor, strings, diagnostics);
  if (whole) finish(reader);
  else if (!has_errors(diagnostics)) fault(reader, Code::TP7001, {Source::Manifest, 0, 1}, "the manifest could not be read to its end");
  return manifest;
}

}  // namespace tpplan
