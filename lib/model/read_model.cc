#include "model/read_model.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>

#include "base/json_reader.h"
#include "base/text.h"
#include "model/module_kinds.h"

namespace tpplan {
namespace {

constexpr size_t kMaxFaults = 50;
constexpr size_t kMaxModules = 2 * 1024 * 1024;
constexpr size_t kMaxTypes = 64 * 1024;
constexpr size_t kMaxTiedNames = 2 * 1024 * 1024;
constexpr uint32_t kMaxSegments = 65536;
constexpr std::string_view kTopKeys[] = {"format", "name", "framework", "modules", "tied", "graph", "$schema", "metadata"};
constexpr std::string_view kModuleKeys[] = {"path", "type", "kind", "features", "parameters", "buffers", "attributes"};
constexpr std::string_view kParamKeys[] = {"shape", "dtype", "dims", "segments", "granularity"};
constexpr std::string_view kFrameworks[] = {"torch", "jax", "keras"};

// A granularity or segments entry waits for the dim names, which may come from the table.
struct PendingDims {
  uint32_t extras;
  ParamId param;      // into ModelGraph::params, or buffers
  bool is_buffer;
  std::vector<std::tuple<std::string_view, std::vector<int64_t>, uint64_t>> segments;  // dim name, sizes, offset
  std::vector<std::tuple<std::string_view, int64_t, uint64_t>> granularity;
};

struct ModelReader {
  ModelGraph& graph;
  std::string_view text;  // of the file
  Diagnostics& diagnostics;
  bool has_format = false, has_name = false, has_framework = false, has_modules = false;
  StringIndex type_index;
  std::vector<PendingDims> pending;
  std::vector<std::pair<std::vector<std::string_view>, uint32_t>> ties;
  size_t tied_names = 0;
  size_t faults = 0;
};

bool too_many_faults(const ModelReader& reader) { return reader.faults > kMaxFaults; }

void fault(ModelReader& reader, Code code, Span span, std::string message, std::string help = {}) {
  ++reader.faults;
  report_message(reader.diagnostics, code, span, std::move(message), std::move(help));
}

// True when the node is of the kind; otherwise says what was found.
bool expect(ModelReader& reader, const JsonNode& node, JsonKind kind, std::string_view what) {
  if (node.kind == kind) return true;
  const std::string found =
      node.kind == JsonKind::Number ? fmt::format("{}", node.text) : std::string(json_kind_name(node.kind));
  fault(reader, Code::TP2003, value_span(Source::Model, node), fmt::format("{} is {}, not {}", what, found, json_kind_name(kind)));
  return false;
}

void warn_unknown_key(ModelReader& reader, std::string_view where, std::string_view key, Span span,
                      std::span<const std::string_view> known) {
  Diagnostic* d = report(reader.diagnostics, Code::TP2004, span, fmt::format("{}/{}", where, key));
  if (d == nullptr) return;
  d->message = fmt::format("unknown key `{}` in {} is left unread", key, where);
  d->counted = "place";
  const std::string_view nearest = nearest_name(key, known);
  if (!nearest.empty()) d->help = fmt::format("did you mean `{}`?", nearest);
}

// ---- one parameter ----

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
      fault(reader, Code::TP2008, value_span(Source::Model, size), fmt::format("size {} is negative", size.integer), "a model file has whole sizes: export the model with the dims it will have");
      return false;
    }
    if (size.integer != 0 && good) product *= static_cast<unsigned __int128>(size.integer);
    good = good && product < (static_cast<unsigned __int128>(1) << 63);
    reader.graph.sizes.push_back(size.integer);
    ++ndim;
  }
  if (!good) fault(reader, Code::TP2008, value_span(Source::Model, list), "the sizes other than 0 multiply to 2^63 elements or more");
  if (ndim > kMaxDims) {
    fault(reader, Code::TP2008, value_span(Source::Model, list), fmt::format("{} dims are more than {}", ndim, kMaxDims));
    return false;
  }
  param.ndim = static_cast<uint8_t>(ndim);
  return good;
}

void read_dims(ModelReader& reader, const JsonTree& tree, uint32_t at, const Param& param, ParamExtras& extras) {
  const JsonNode& list = tree.nodes[at];
  if (!expect(reader, list, JsonKind::Array, "`dims`")) return;
  if (list.end - at - 1 > kMaxDims) {
    return fault(reader, Code::TP2009, value_span(Source::Model, list), fmt::format("`dims` holds more than {} values", kMaxDims));
  }
  for (uint32_t i = at + 1; i < list.end; i = tree.nodes[i].end) {
    if (!expect(reader, tree.nodes[i], JsonKind::String, "a dim name")) return;
    if (find_dim(extras.dims, tree.nodes[i].text) >= 0) {
      return fault(reader, Code::TP2009, value_span(Source::Model, tree.nodes[i]), fmt::format("dim `{}` is named twice", tree.nodes[i].text));
    }
    extras.dims.push_back(tree.nodes[i].text);
  }
  if (extras.dims.size() != param.ndim) {
    fault(reader, Code::TP2009, value_span(Source::Model, list),
          fmt::format("{} for {}", counted(extras.dims.size(), "dim name"), counted(param.ndim, "dim")));
    extras.dims.clear();
  }
}

// A map by dim has no more entries than a tensor has dims.
bool few_dims(ModelReader& reader, const JsonTree& tree, uint32_t map, std::string_view what) {
  size_t count = 0;
  for (uint32_t i = map + 1; i < tree.nodes[map].end; i = tree.nodes[i].end) ++count;
  if (count <= kMaxDims) return true;
  fault(reader, Code::TP2009, value_span(Source::Model, tree.nodes[map]), fmt::format("{} names {} dims, more than {}", what, count, kMaxDims));
  return false;
}

void read_segments(ModelReader& reader, const JsonTree& tree, uint32_t at, PendingDims& pending) {
  const JsonNode& map = tree.nodes[at];
  if (!expect(reader, map, JsonKind::Object, "`segments`") || !few_dims(reader, tree, at, "`segments`")) return;
  for (uint32_t i = at + 1; i < map.end; i = tree.nodes[i].end) {
    const JsonNode& list = tree.nodes[i];
    if (!expect(reader, list, JsonKind::Array, "the segments of a dim")) return;
    if (list.end - i - 1 > kMaxSegments) {
      return fault(reader, Code::TP1007, value_span(Source::Model, list), fmt::format("a dim has more than {} segments", kMaxSegments));
    }
    std::vector<int64_t> sizes;
    for (uint32_t k = i + 1; k < list.end; k = tree.nodes[k].end) {
      if (!expect(reader, tree.nodes[k], JsonKind::Integer, "a segment's size")) return;
      if (tree.nodes[k].integer < 0) {
        return fault(reader, Code::TP2009, value_span(Source::Model, tree.nodes[k]), "a segment's size is negative");
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
      return fault(reader, Code::TP2009, value_span(Source::Model, granule), "a granularity is below 1");
    }
    pending.granularity.emplace_back(granule.key, granule.integer, granule.key_offset);
  }
}

void read_param(ModelReader& reader, const JsonTree& tree, uint32_t at, ModuleId module, bool is_buffer) {
  const JsonNode& entry = tree.nodes[at];
  if (!expect(reader, entry, JsonKind::Object, fmt::format("parameter `{}`", entry.key))) return;
  Param param{.name = entry.key, .offset = static_cast<uint32_t>(entry.key_offset), .module = module, .is_buffer = is_buffer};
  uint32_t shape = 0, dtype = 0, dims = 0, segments = 0, granularity = 0;
  for (uint32_t i = at + 1; i < entry.end; i = tree.nodes[i].end) {
    const std::string_view key = tree.nodes[i].key;
    uint32_t* slot = key == "shape" ? &shape : key == "dtype" ? &dtype : key == "dims" ? &dims : key == "segments" ? &segments
                   : key == "granularity" ? &granularity : nullptr;
    if (slot != nullptr) *slot = i;
    else warn_unknown_key(reader, "a parameter", key, key_span(Source::Model, tree.nodes[i]), kParamKeys);
  }
  if (shape == 0 || dtype == 0) {
    return fault(reader, Code::TP2002, key_span(Source::Model, entry),
                 fmt::format("`{}` has no `{}`", entry.key, shape == 0 ? "shape" : "dtype"));
  }
  if (!read_shape(reader, tree, shape, param)) return;
  if (!expect(reader, tree.nodes[dtype], JsonKind::String, "`dtype`")) return;
  if (!find_dtype(tree.nodes[dtype].text, param.dtype)) {
    std::vector<std::string_view> names;
    for (const DTypeRow& row : dtypes()) names.push_back(row.name);
    const std::string_view nearest = nearest_name(tree.nodes[dtype].text, names);
    return fault(reader, Code::TP2007, value_span(Source::Model, tree.nodes[dtype]),
                 fmt::format("unknown dtype `{}`", tree.nodes[dtype].text),
                 nearest.empty() ? "dtypes are called as in torch: float32, bfloat16, float8_e4m3fn, ..." : fmt::format("did you mean `{}`?", nearest));
  }
  std::vector<Param>& list = is_buffer ? reader.graph.buffers : reader.graph.params;
  if (dims != 0 || segments != 0 || granularity != 0) {
    param.extras = static_cast<uint32_t>(reader.graph.extras.size());
    ParamExtras& extras = reader.graph.extras.emplace_back();
    PendingDims pending{.extras = param.extras, .param = static_cast<ParamId>(list.size()), .is_buffer = is_buffer, .segments = {}, .granularity = {}};
    if (dims != 0) read_dims(reader, tree, dims, param, extras);
    if (segments != 0) read_segments(reader, tree, segments, pending);
    if (granularity != 0) read_granularity(reader, tree, granularity, pending);
    reader.pending.push_back(std::move(pending));
  }
  list.push_back(param);
}

// ---- one module ----

void read_attributes(ModelReader& reader, const JsonTree& tree, uint32_t at, Module& module) {
  const JsonNode& map = tree.nodes[at];
  if (!expect(reader, map, JsonKind::Object, "`attributes`")) return;
  ModuleAttributes attributes;
  const std::pair<std::string_view, int64_t*> known[] = {{"num_heads", &attributes.num_heads},
                                                         {"num_kv_heads", &attributes.num_kv_heads},
                                                         {"head_dim", &attributes.head_dim},
                                                         {"num_experts", &attributes.num_experts}};
  for (uint32_t i = at + 1; i < map.end; i = tree.nodes[i].end) {
    for (const auto& [name, value] : known) {
      if (tree.nodes[i].key != name) continue;
      if (!expect(reader, tree.nodes[i], JsonKind::Integer, fmt::format("attribute `{}`", name))) return;
      if (tree.nodes[i].integer < 1) {
        return fault(reader, Code::TP2003, value_span(Source::Model, tree.nodes[i]), fmt::format("attribute `{}` is below 1", name));
      }
      *value = tree.nodes[i].integer;
    }
  }
  module.attributes = static_cast<uint32_t>(reader.graph.attributes.size());
  reader.graph.attributes.push_back(attributes);
}

uint32_t intern_type(ModelReader& reader, std::string_view type) {
  std::vector<std::string_view>& types = reader.graph.types;
  const auto name_of = [&types](uint32_t i) { return types[i]; };
  const uint32_t known = find(reader.type_index, type, name_of);
  if (known != kNotFound) return known;
  types.push_back(type);
  insert(reader.type_index, type, static_cast<uint32_t>(types.size() - 1), name_of);
  return static_cast<uint32_t>(types.size() - 1);
}

bool good_length(ModelReader& reader, std::string_view text, Span span) {
  if (text.size() <= kMaxPathBytes) return true;
  fault(reader, Code::TP2006, span, fmt::format("a name of {} bytes is longer than {}", text.size(), kMaxPathBytes));
  return false;
}

void read_params(ModelReader& reader, const JsonTree& tree, uint32_t at, ModuleId module, bool are_buffers) {
  const JsonNode& map = tree.nodes[at];
  if (!expect(reader, map, JsonKind::Object, are_buffers ? "`buffers`" : "`parameters`")) return;
  for (uint32_t i = at + 1; i < map.end && !too_many_faults(reader); i = tree.nodes[i].end) {
    if (good_length(reader, tree.nodes[i].key, key_span(Source::Model, tree.nodes[i]))) {
      read_param(reader, tree, i, module, are_buffers);
    }
  }
}

void read_module(ModelReader& reader, const JsonTree& tree) {
  ModelGraph& graph = reader.graph;
  const JsonNode& entry = tree.nodes[0];
  if (!expect(reader, entry, JsonKind::Object, "a module")) return;
  if (graph.modules.size() >= kMaxModules) {
    return fault(reader, Code::TP1007, {Source::Model, entry.offset, 1}, fmt::format("the model has more than {} modules", kMaxModules));
  }
  uint32_t path = 0, type = 0, kind = 0, features = 0, parameters = 0, buffers = 0, attributes = 0;
  const std::pair<std::string_view, uint32_t*> slots[] = {{"path", &path}, {"type", &type}, {"kind", &kind},
      {"features", &features},
      {"parameters", &parameters}, {"buffers", &buffers}, {"attributes", &attributes}};
  for (uint32_t i = 1; i < entry.end; i = tree.nodes[i].end) {
    const auto slot = std::find_if(std::begin(slots), std::end(slots), [&](const auto& s) { return s.first == tree.nodes[i].key; });
    if (slot != std::end(slots)) *slot->second = i;
    else warn_unknown_key(reader, "a module", tree.nodes[i].key, key_span(Source::Model, tree.nodes[i]), kModuleKeys);
  }
  for (const auto& [name, index] : {std::pair{"path", path}, std::pair{"type", type}}) {
    if (index == 0) return fault(reader, Code::TP2002, {Source::Model, entry.offset, 1}, fmt::format("a module has no `{}`", name));
    if (!expect(reader, tree.nodes[index], JsonKind::String, fmt::format("`{}`", name))) return;
    if (!good_length(reader, tree.nodes[index].text, {Source::Model, tree.nodes[index].offset, 1})) return;
  }
  Module module{.path = tree.nodes[path].text, .offset = static_cast<uint32_t>(tree.nodes[path].offset), .type = intern_type(reader, tree.nodes[type].text),
                .first_param = static_cast<ParamId>(graph.params.size())};
  if (kind != 0) {
    if (!expect(reader, tree.nodes[kind], JsonKind::String, "`kind`")) return;
    module.kind_is_given = true;
    if (!find_module_kind(tree.nodes[kind].text, module.kind)) {
      return fault(reader, Code::TP2011, value_span(Source::Model, tree.nodes[kind]), fmt::format("unknown kind `{}`", tree.nodes[kind].text),
                   "kinds are linear, embedding, norm, experts and other");
    }
  }
  if (features != 0) {
    if (!expect(reader, tree.nodes[features], JsonKind::String, "`features`")) return;
    if (!find_features(tree.nodes[features].text, module.features)) {
      return fault(reader, Code::TP2011, value_span(Source::Model, tree.nodes[features]), fmt::format("unknown features `{}`", tree.nodes[features].text),
                   "features are in, out, both and none");
    }
  }
  if (attributes != 0) read_attributes(reader, tree, attributes, module);
  const auto id = static_cast<ModuleId>(graph.modules.size());
  const auto path_of_module = [&graph](uint32_t i) { return graph.modules[i].path; };
  if (graph.types.size() > kMaxTypes) {
    return fault(reader, Code::TP1007, value_span(Source::Model, tree.nodes[type]), fmt::format("the model has more than {} module types", kMaxTypes));
  }
  graph.modules.push_back(module);
  if (const uint32_t earlier = insert(graph.module_index, module.path, id, path_of_module); earlier != kNotFound) {
    ++reader.faults;
    Diagnostic& d = report_message(reader.diagnostics, Code::TP2005, value_span(Source::Model, tree.nodes[path]),
                                   fmt::format("module `{}` is declared twice", module.path), "list each module once");
    d.notes.push_back({"first one", span_of(graph.modules[earlier])});
    return;
  }
  if (parameters != 0) read_params(reader, tree, parameters, id, false);
  if (buffers != 0) read_params(reader, tree, buffers, id, true);
  graph.modules[id].param_count = static_cast<uint32_t>(graph.params.size()) - module.first_param;
  graph.modules[id].kind = module.kind;
}

// ---- the top level ----

void read_format(ModelReader& reader, const JsonNode& node) {
  reader.has_format = true;
  if (!expect(reader, node, JsonKind::String, "`format`")) return;
  if (node.text == kModelFormat) return;
  const bool newer = node.text.starts_with("tpplan.model/");
  const bool other = node.text.starts_with("tpplan.");
  fault(reader, Code::TP2001, value_span(Source::Model, node), fmt::format("format `{}` is not `{}`", node.text, kModelFormat),
        newer ? "a newer tpplan reads this version" : other ? "the model comes first, then the plan: tpplan compile MODEL PLAN" : "");
}

// One group of names.
void read_tie(ModelReader& reader, const JsonTree& tree) {
  const JsonNode& group = tree.nodes[0];
  if (!expect(reader, group, JsonKind::Array, "a group of tied names")) return;
  std::vector<std::string_view> names;
  for (uint32_t i = 1; i < group.end; i = tree.nodes[i].end) {
    if (!expect(reader, tree.nodes[i], JsonKind::String, "a tied name")) return;
    names.push_back(tree.nodes[i].text);
  }
  if (names.size() < 2) return fault(reader, Code::TP2010, value_span(Source::Model, group), "a tie names fewer than two parameters");
  reader.tied_names += names.size();
  if (reader.tied_names > kMaxTiedNames) {
    return fault(reader, Code::TP1007, {Source::Model, group.offset, 1}, fmt::format("the ties hold more than {} names", kMaxTiedNames));
  }
  reader.ties.emplace_back(std::move(names), static_cast<uint32_t>(group.offset));
}

// A member that is read element by element: an element has no key, and a node with one is a member that is no array.
bool is_element(ModelReader& reader, const JsonNode& node, std::string_view what) {
  return node.key.empty() || (expect(reader, node, JsonKind::Array, what), false);
}

bool read_member(ModelReader& reader, std::string_view key, const JsonTree& tree) {
  const JsonNode& node = tree.nodes[0];
  if (key == "modules") {
    if (is_element(reader, node, "`modules`")) read_module(reader, tree);
  } else if (key == "format") {
    read_format(reader, node);
  } else if (key == "name") {
    reader.has_name = true;
    if (expect(reader, node, JsonKind::String, "`name`")) reader.graph.name = node.text;
  } else if (key == "framework") {
    reader.has_framework = true;
    if (!expect(reader, node, JsonKind::String, "`framework`")) return true;
    const auto found = std::find(std::begin(kFrameworks), std::end(kFrameworks), node.text);
    reader.graph.framework = static_cast<Framework>(found - std::begin(kFrameworks));
    if (found == std::end(kFrameworks)) {
      reader.graph.framework = Framework::Torch;
      fault(reader, Code::TP2011, value_span(Source::Model, node), fmt::format("unknown framework `{}`", node.text), "frameworks are torch, jax and keras");
    }
  } else if (key == "tied") {
    if (is_element(reader, node, "`tied`")) read_tie(reader, tree);
  }
  return !too_many_faults(reader);
}

// The graph itself is not read.
void check_graph(ModelReader& reader, Span key) {
  const size_t value = reader.text.find_first_not_of(" \t\r\n:", key.offset + key.length);
  if (value == std::string_view::npos || reader.text[value] == '{') return;
  fault(reader, Code::TP2003, {Source::Model, value, 1}, "`graph` is not an object");
}

// ---- once everything is read: what depends on the framework or on other entries ----

void check_path(ModelReader& reader, std::string_view path, uint64_t offset, bool is_name) {
  const char mark = separator(reader.graph.framework);
  const Span span{Source::Model, offset, static_cast<uint32_t>(path.size() + 2)};
  if (is_name) {
    if (path.empty()) fault(reader, Code::TP2006, span, "a parameter has an empty name");
    else if (path.find(mark) != std::string_view::npos) {
      fault(reader, Code::TP2006, span, fmt::format("parameter name `{}` holds the path separator `{}`", path, mark),
            "a parameter stands under the module that owns it, by its last name");
    }
    return;
  }
  const char twice[] = {mark, mark, 0};
  if (!path.empty() && (path.front() == mark || path.back() == mark || path.find(twice) != std::string_view::npos)) {
    fault(reader, Code::TP2006, span, fmt::format("module path `{}` has an empty part", path));
  }
}

void add_ancestors(ModelGraph& graph) {
  uint32_t container = kNone;
  const auto path_of_module = [&graph](uint32_t i) { return graph.modules[i].path; };
  const size_t listed = graph.modules.size();
  for (size_t i = 0; i < listed; ++i) {
    std::string_view path = graph.modules[i].path;
    while (!path.empty()) {
      const size_t at = path.rfind(separator(graph.framework));
      path = at == std::string_view::npos ? std::string_view{} : path.substr(0, at);
      if (find(graph.module_index, path, path_of_module) != kNotFound) break;
      if (container == kNone) {
        container = static_cast<uint32_t>(graph.types.size());
        graph.types.push_back("");
      }
      const auto id = static_cast<ModuleId>(graph.modules.size());
      graph.modules.push_back({.path = path, .offset = graph.modules[i].offset, .type = container});
      insert(graph.module_index, path, id, path_of_module);
    }
  }
}

void check_buffer_names(ModelReader& reader) {
  const ModelGraph& graph = reader.graph;
  for (const Param& buffer : graph.buffers) {
    check_path(reader, buffer.name, buffer.offset, true);
    for (const Param& param : params_of(graph, graph.modules[buffer.module])) {
      if (param.name != buffer.name) continue;
      fault(reader, Code::TP2005, span_of(buffer), fmt::format("`{}` is a parameter and a buffer of one module", buffer.name));
    }
  }
}

// Segments and granularity name dims; the names are known only now.
void resolve_pending(ModelReader& reader, const PendingDims& pending) {
  ModelGraph& graph = reader.graph;
  const Param& param = (pending.is_buffer ? graph.buffers : graph.params)[pending.param];
  const std::span<const std::string_view> dims = dims_of(graph, graph.modules[param.module], param);
  const auto dim_called = [&](std::string_view name, uint64_t offset) {
    const int dim = find_dim(dims, name);
    if (dim < 0) {
      fault(reader, Code::TP2009, {Source::Model, offset, static_cast<uint32_t>(name.size() + 2)},
            fmt::format("`{}` has no dim called `{}`{}", param.name, name, dims.empty() ? "" : fmt::format(": its dims are {}", fmt::join(dims, ", "))),
            dims.empty() ? "name the dims: \"dims\": [\"out\", \"in\"]" : "");
    }
    return dim;
  };
  ParamExtras& extras = graph.extras[pending.extras];
  for (const auto& [name, sizes, offset] : pending.segments) {
    const int dim = dim_called(name, offset);
    if (dim < 0) continue;
    unsigned __int128 total = 0;
    for (const int64_t size : sizes) total += static_cast<unsigned __int128>(size);
    const int64_t whole = shape_of(graph, param)[static_cast<size_t>(dim)];
    if (total != static_cast<unsigned __int128>(whole)) {
      fault(reader, Code::TP2009, {Source::Model, offset, static_cast<uint32_t>(name.size() + 2)},
            fmt::format("segments {} of dim {} do not add up to its size {}", shape_text(sizes), dim, whole));
      continue;
    }
    extras.segments.push_back({static_cast<size_t>(dim), sizes});
  }
  for (const auto& [name, granule, offset] : pending.granularity) {
    const int dim = dim_called(name, offset);
    if (dim >= 0) extras.granularity.emplace_back(static_cast<size_t>(dim), granule);
  }
  std::sort(extras.segments.begin(), extras.segments.end(), [](const auto& a, const auto& b) { return a.dim < b.dim; });
}

void resolve_ties(ModelReader& reader) {
  ModelGraph& graph = reader.graph;
  std::vector<uint32_t> tie_of(reader.ties.empty() ? 0 : graph.params.size(), kNone);
  for (const auto& [names, offset] : reader.ties) {
    if (too_many_faults(reader)) return;
    const Span span{Source::Model, offset, 1};
    Tie tie{.params = {}, .offset = offset};
    for (const std::string_view name : names) {
      const ParamId param = find_param(graph, name);
      if (param == kNone) {
        // The name's own place: it is quoted in the group that starts at `offset`, or written with escapes.
        const bool quoted = name.data() > reader.text.data() && name.data() < reader.text.data() + reader.text.size();
        const Span at = quoted ? Span{Source::Model, static_cast<uint64_t>(name.data() - reader.text.data()) - 1, static_cast<uint32_t>(name.size() + 2)} : span;
        fault(reader, Code::TP2010, at, fmt::format("tied name `{}` is not a parameter of the model", name), "a tie names parameters by their whole paths: `lm_head.weight`");
      } else if (tie_of[param] != kNone) {
        fault(reader, Code::TP2010, span, fmt::format("`{}` stands in two ties, or twice in one", name), "list each tensor's names once, in one group");
      } else {
        tie_of[param] = static_cast<uint32_t>(graph.ties.size());
        tie.params.push_back(param);
      }
    }
    for (size_t i = 1; i < tie.params.size(); ++i) {
      const Param &a = graph.params[tie.params[0]], &b = graph.params[tie.params[i]];
      if (std::ranges::equal(shape_of(graph, a), shape_of(graph, b)) && a.dtype == b.dtype) continue;
      fault(reader, Code::TP2010, span,
            fmt::format("tied weights differ: `{}` is {} {}, `{}` is {} {}", path_of(graph, a), shape_text(shape_of(graph, a)), dtypes()[a.dtype].name,
                        path_of(graph, b), shape_text(shape_of(graph, b)), dtypes()[b.dtype].name));
    }
    if (tie.params.size() >= 2) graph.ties.push_back(std::move(tie));
  }
}

void finish(ModelReader& reader) {
  ModelGraph& graph = reader.graph;
  const std::pair<bool, std::string_view> required[] = {{reader.has_format, "format"}, {reader.has_name, "name"},
                                                        {reader.has_framework, "framework"}, {reader.has_modules, "modules"}};
  for (const auto& [present, key] : required) {
    if (present) continue;
    const bool format = key == "format";
    fault(reader, format ? Code::TP2001 : Code::TP2002, {Source::Model, 0, 1}, fmt::format("the model has no `{}`", key),
          format ? fmt::format("a model file starts with {{\"format\": \"{}\"", kModelFormat) : "");
  }
  if (has_errors(reader.diagnostics)) return;
  for (const Module& module : graph.modules) check_path(reader, module.path, module.offset, false);
  for (const Param& param : graph.params) check_path(reader, param.name, param.offset, true);
  check_buffer_names(reader);
  if (has_errors(reader.diagnostics)) return;
  for (Module& module : graph.modules) {
    if (!module.kind_is_given) module.kind = kind_of_type(graph.framework, type_of(graph, module), module.param_count > 0);
  }
  add_ancestors(graph);
  for (const PendingDims& pending : reader.pending) {
    if (!too_many_faults(reader)) resolve_pending(reader, pending);
  }
  resolve_ties(reader);
  if (graph.params.empty()) fault(reader, Code::TP2012, {Source::Model, 0, 1}, "the model has no parameters: there is nothing to shard");
}

}  // namespace

ModelGraph read_model(const SourceFile& file, Diagnostics& diagnostics) {
  ModelGraph graph;
  ModelReader reader{.graph = graph, .text = file.text, .diagnostics = diagnostics, .type_index = {}, .pending = {}, .ties = {}};
  const JsonVisitor visitor{
      .member =
          [&](std::string_view key, Span span) {
            reader.has_modules = reader.has_modules || key == "modules";
            if (key == "modules" || key == "tied") return JsonMember::Elements;
            if (std::ranges::find(kTopKeys, key) == std::end(kTopKeys)) {
              warn_unknown_key(reader, "the model", key, span, kTopKeys);
              return JsonMember::Skip;
            }
            if (key == "graph") check_graph(reader, span);
            return key == "graph" || key == "metadata" || key == "$schema" ? JsonMember::Skip : JsonMember::Whole;
          },
      .value = [&](std::string_view key, const JsonTree& tree) { return read_member(reader, key, tree); }};
  if (read_json(file, Source::Model, visitor, graph.strings, diagnostics)) finish(reader);
  return graph;
}

}  // namespace tpplan
