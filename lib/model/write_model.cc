#include "model/write_model.h"

#include <spdlog/fmt/fmt.h>

#include "base/text.h"
#include "model/module_kinds.h"
#include "model/read_model.h"

namespace tpplan {
namespace {

constexpr size_t kPieceBytes = 64 * 1024;

void append_key(std::string& out, std::string_view key) {
  append_json_string(out, key);
  out += ": ";
}

void append_param(std::string& out, const ModelGraph& graph, const Module& module, const Param& param) {
  append_key(out, param.name);
  out +=
      fmt::format("{{\"shape\": {}, \"dtype\": \"{}\"", shape_text(shape_of(graph, param)), dtypes()[param.dtype].name);
  if (param.extras != kNone) {
    const ParamExtras& extras = graph.extras[param.extras];
    const std::span<const std::string_view> names = dims_of(graph, module, param);
    const auto append_names = [&](std::string_view key, auto&& entries, auto&& append_entry) {
      if (entries.empty()) return;
      out += fmt::format(", \"{}\": ", key);
      std::string_view mark = key == "dims" ? "[" : "{";
      for (const auto& entry : entries) {
        out += mark;
        append_entry(entry);
        mark = ", ";
      }
      out += key == "dims" ? "]" : "}";
    };
    append_names("dims", extras.dims, [&](std::string_view name) { append_json_string(out, name); });
    append_names("segments", extras.segments, [&](const DimSegments& segments) {
      append_key(out, names[segments.dim]);
      out += shape_text(segments.sizes);
    });
    append_names("granularity", extras.granularity, [&](const std::pair<size_t, int64_t>& granule) {
      append_key(out, names[granule.first]);
      out += std::to_string(granule.second);
    });
  }
  out += '}';
}

void append_attributes(std::string& out, const ModuleAttributes& attributes) {
  const std::pair<std::string_view, int64_t> values[] = {{"num_heads", attributes.num_heads},
                                                         {"num_kv_heads", attributes.num_kv_heads},
                                                         {"head_dim", attributes.head_dim},
                                                         {"num_experts", attributes.num_experts}};
  std::string_view mark = ", \"attributes\": {";
  for (const auto& [name, value] : values) {
    if (value == 0) continue;
    out += fmt::format("{}\"{}\": {}", mark, name, value);
    mark = ", ";
  }
  if (mark == ", ") out += '}';
}

}  // namespace

bool write_model(const ModelGraph& graph, const Sink& sink) {
  std::string out = "{\"format\": \"" + std::string(kModelFormat) + "\", \"name\": ";
  append_json_string(out, graph.name);
  out += fmt::format(", \"framework\": \"{}\", \"modules\": [", kFrameworkNames[static_cast<size_t>(graph.framework)]);
  size_t buffer = 0;
  for (ModuleId id = 0; id < graph.modules.size(); ++id) {
    const Module& module = graph.modules[id];
    out += id == 0 ? "\n{" : ",\n{";
    append_key(out, "path");
    append_json_string(out, module.path);
    out += ", \"type\": ";
    append_json_string(out, type_of(graph, module));
    if (module.kind_is_given) out += fmt::format(", \"kind\": \"{}\"", to_text(module.kind));
    if (module.features != kFeaturesNotGiven) out += fmt::format(", \"features\": \"{}\"", to_text(module.features));
    std::string_view mark = ", \"parameters\": {";
    for (const Param& param : params_of(graph, module)) {
      out += mark;
      append_param(out, graph, module, param);
      mark = ", ";
    }
    if (mark == ", ") out += '}';
    mark = ", \"buffers\": {";
    for (; buffer < graph.buffers.size() && graph.buffers[buffer].module == id; ++buffer) {
      out += mark;
      append_param(out, graph, module, graph.buffers[buffer]);
      mark = ", ";
    }
    if (mark == ", ") out += '}';
    if (module.attributes != kNone) append_attributes(out, graph.attributes[module.attributes]);
    out += '}';
    if (out.size() >= kPieceBytes) {
      if (!sink(out)) return false;
      out.clear();
    }
  }
  out += "\n], \"tied\": [";
  for (size_t i = 0; i < graph.ties.size(); ++i) {
    out += i == 0 ? "[" : ", [";
    for (size_t k = 0; k < graph.ties[i].params.size(); ++k) {
      if (k > 0) out += ", ";
      append_json_string(out, path_of(graph, graph.params[graph.ties[i].params[k]]));
    }
    out += ']';
  }
  return sink(out + "]}\n");
}

}  // namespace tpplan
