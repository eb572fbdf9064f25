#include "model/model_graph.h"

#include <spdlog/fmt/fmt.h>

#include "model/module_kinds.h"

namespace tpplan {

std::span<const int64_t> shape_of(const ModelGraph& graph, const Param& param) {
  return {graph.sizes.data() + param.shape_begin, param.ndim};
}

std::string_view type_of(const ModelGraph& graph, const Module& module) { return graph.types[module.type]; }

std::span<const Param> params_of(const ModelGraph& graph, const Module& module) {
  return {graph.params.data() + module.first_param, module.param_count};
}

void assign_path(std::string& path, const ModelGraph& graph, const Param& param) {
  const std::string_view module = graph.modules[param.module].path;
  path.assign(module);
  if (!module.empty()) path += separator(graph.framework);
  path += param.name;
}

std::string path_of(const ModelGraph& graph, const Param& param) {
  std::string path;
  assign_path(path, graph, param);
  return path;
}

ModuleId find_module(const ModelGraph& graph, std::string_view path) {
  return find(graph.module_index, path, [&](uint32_t id) { return graph.modules[id].path; });
}

namespace {

// Module path and name of a parameter's path; names hold no separator.
std::pair<std::string_view, std::string_view> split_path(const ModelGraph& graph, std::string_view path) {
  const size_t at = path.rfind(separator(graph.framework));
  if (at == std::string_view::npos) return {"", path};
  return {path.substr(0, at), path.substr(at + 1)};
}

}  // namespace

// The module is found by its hash, the parameter by going through those of that one module.
ParamId find_param(const ModelGraph& graph, std::string_view path) {
  const auto [module_path, name] = split_path(graph, path);
  const ModuleId id = find_module(graph, module_path);
  if (id == kNone) return kNone;
  const Module& module = graph.modules[id];
  for (ParamId param = module.first_param; param < module.first_param + module.param_count; ++param) {
    if (graph.params[param].name == name) return param;
  }
  return kNone;
}

ParamId find_buffer(const ModelGraph& graph, std::string_view path) {
  const auto [module_path, name] = split_path(graph, path);
  for (ParamId id = 0; id < graph.buffers.size(); ++id) {
    const Param& buffer = graph.buffers[id];
    if (buffer.name == name && graph.modules[buffer.module].path == module_path) return id;
  }
  return kNone;
}

ModuleId parent_of(const ModelGraph& graph, ModuleId module) { return graph.modules[module].parent; }

std::string_view leaf_of(const ModelGraph& graph, std::string_view path) { return split_path(graph, path).second; }

// A prefix of the text is not enough: layers.1 is not above layers.10.
bool is_below(const ModelGraph& graph, std::string_view path, std::string_view ancestor) {
  if (ancestor.empty() || path == ancestor) return true;
  return path.size() > ancestor.size() && path.starts_with(ancestor) &&
         path[ancestor.size()] == separator(graph.framework);
}

Span span_of(const ModelGraph& graph, const Param& param) {
  return {graph.file, param.offset, static_cast<uint32_t>(param.name.size() + 2)};
}

Span span_of(const ModelGraph& graph, const Module& module) { return {graph.file, module.offset, 1}; }

namespace {

void dump_param(std::string& out, const ModelGraph& graph, const Module& module, const Param& param) {
  out += fmt::format("  {} {} {} {}", param.is_buffer ? "buffer" : "parameter", param.name,
                     shape_text(shape_of(graph, param)), dtypes()[param.dtype].name);
  const auto dims = param.is_buffer ? std::span<const std::string_view>{} : dims_of(graph, module, param);
  if (!dims.empty()) out += fmt::format(" ({})", fmt::join(dims, ", "));
  if (param.extras != kNone) {
    for (const DimSegments& segments : graph.extras[param.extras].segments) {
      out += fmt::format(" segments {}: {}", segments.dim, shape_text(segments.sizes));
    }
    for (const auto& [dim, granule] : graph.extras[param.extras].granularity)
      out += fmt::format(" granularity {}: {}", dim, granule);
  }
  out += '\n';
}

}  // namespace

std::string dump(const ModelGraph& graph) {
  std::string out;
  size_t buffer = 0;
  for (ModuleId id = 0; id < graph.modules.size(); ++id) {
    const Module& module = graph.modules[id];
    out += fmt::format("module {} {} ({})\n", module.path.empty() ? "<root>" : module.path,
                       type_of(graph, module).empty() ? "(not listed)" : type_of(graph, module), to_text(module.kind));
    for (const Param& param : params_of(graph, module)) dump_param(out, graph, module, param);
    for (; buffer < graph.buffers.size() && graph.buffers[buffer].module == id; ++buffer) {
      dump_param(out, graph, module, graph.buffers[buffer]);
    }
  }
  for (const Tie& tie : graph.ties) {
    out += "tied";
    for (const ParamId param : tie.params) out += " " + path_of(graph, graph.params[param]);
    out += '\n';
  }
  return out;
}

}  // namespace tpplan
