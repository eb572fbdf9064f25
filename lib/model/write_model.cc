#include "model/write_model.h"

#include <algorithm>
#include <span>

#include "model/module_kinds.h"
#include "text/json_writer.h"

namespace tpplan {
namespace {

// Writes an object with dim names as keys.
template <typename Entries, typename Write>
void write_dims(JsonWriter& json, std::string_view key, const Entries& entries, Write write) {
  if (entries.empty()) return;
  write_key(json, key);
  begin_object(json);
  for (const auto& entry : entries) write(entry);
  end_object(json);
}

void write_param(JsonWriter& json, const ModelGraph& graph, const Module& module, const Param& param) {
  write_key(json, param.name);
  begin_object(json);
  write_key(json, "shape");
  write_array(json, shape_of(graph, param));
  write_field(json, "dtype", dtypes()[param.dtype].name);
  if (param.extras != kNone) {
    const ParamExtras& extras = graph.extras[param.extras];
    const std::span<const std::string_view> names = dims_of(graph, module, param);
    if (!extras.dims.empty()) {
      write_key(json, "dims");
      write_array(json, extras.dims);
    }
    if (!extras.logical_axes.empty()) {
      write_key(json, "logical_axes");
      write_array(json, extras.logical_axes, [&](std::string_view name) {
        if (name.empty())
          write_value(json, nullptr);
        else
          write_value(json, name);
      });
    }
    write_dims(json, "segments", extras.segments, [&](const DimSegments& segments) {
      write_key(json, names[segments.dim]);
      write_array(json, segments.sizes);
    });
    write_dims(json, "granularity", extras.granularity, [&](const std::pair<size_t, int64_t>& granule) {
      write_field(json, names[granule.first], granule.second);
    });
  }
  end_object(json);
}

template <typename Params>
void write_params(JsonWriter& json, std::string_view key, const ModelGraph& graph, const Module& module,
                  const Params& params) {
  if (params.empty()) return;
  write_key(json, key);
  begin_object(json);
  for (const Param& param : params) write_param(json, graph, module, param);
  end_object(json);
}

void write_attributes(JsonWriter& json, const ModuleAttributes& attributes) {
  if (attributes.integers.empty()) return;
  write_key(json, "attributes");
  begin_object(json);
  for (const auto& [name, value] : attributes.integers) write_field(json, name, value);
  end_object(json);
}

// Writes a module with its parameters and `buffers`.
void write_module(JsonWriter& json, const ModelGraph& graph, const Module& module, std::span<const Param> buffers) {
  begin_object(json);
  write_field(json, "path", module.path);
  write_field(json, "type", type_of(graph, module));
  if (module.kind_is_given) write_field(json, "kind", to_text(module.kind));
  if (module.features != kFeaturesNotGiven) write_field(json, "features", to_text(module.features));
  write_params(json, "parameters", graph, module, params_of(graph, module));
  write_params(json, "buffers", graph, module, buffers);
  if (module.attributes != kNone) write_attributes(json, graph.attributes[module.attributes]);
  end_object(json);
}

}  // namespace

bool write_model(const ModelGraph& graph, std::string_view operations, const Sink& sink) {
  JsonWriter json{.sink = &sink};
  begin_object(json);
  write_field(json, "format", kModelFormat);
  write_field(json, "name", graph.name);
  write_field(json, "framework", to_text(graph.framework));
  write_key(json, "modules");
  begin_array(json);
  size_t first = 0;  // index of the module's first buffer; buffers are in module order
  for (ModuleId id = 0; id < graph.modules.size(); ++id) {
    size_t end = first;
    while (end < graph.buffers.size() && graph.buffers[end].module == id) ++end;
    next_line(json, 0);
    write_module(json, graph, graph.modules[id], std::span(graph.buffers).subspan(first, end - first));
    first = end;
  }
  next_line(json, 0);
  end_array(json);
  write_key(json, "tied");
  write_array(json, graph.ties, [&](const Tie& tie) {
    write_array(json, tie.params, [&](ParamId param) { write_value(json, path_of(graph, graph.params[param])); });
  });
  if (!operations.empty()) {
    next_line(json, 1);
    write_key(json, "graph");
    write_json(json, operations);
  }
  end_object(json);
  return finish_json(json);
}

}  // namespace tpplan
