#include "model/model_graph.h"

#include <algorithm>

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

// Splits a parameter's path into module path and name; names contain no separator.
std::pair<std::string_view, std::string_view> split_path(const ModelGraph& graph, std::string_view path) {
  const size_t at = path.rfind(separator(graph.framework));
  if (at == std::string_view::npos) return {"", path};
  return {path.substr(0, at), path.substr(at + 1)};
}

}  // namespace

// Looks up the module by hash, then scans its parameters.
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

// Buffers are in the order of their modules.
ParamId find_buffer(const ModelGraph& graph, std::string_view path) {
  const auto [module_path, name] = split_path(graph, path);
  const ModuleId id = find_module(graph, module_path);
  if (id == kNone) return kNone;
  auto at = std::ranges::lower_bound(graph.buffers, id, {}, &Param::module);
  for (; at != graph.buffers.end() && at->module == id; ++at) {
    if (at->name == name) return static_cast<ParamId>(at - graph.buffers.begin());
  }
  return kNone;
}

// Compares nearby entries first, because siblings are close in most files and the index of a large model is slow.
ModuleId find_sibling(const ModelGraph& graph, ModuleId id, std::string_view leaf) {
  constexpr ModuleId kNear = 4;
  const ModuleId parent = graph.modules[id].parent;
  const auto is_it = [&](ModuleId other) {
    return other < graph.modules.size() && graph.modules[other].parent == parent &&
           leaf_of(graph, graph.modules[other].path) == leaf;
  };
  for (ModuleId step = 1; step <= kNear; ++step) {
    if (is_it(id + step)) return id + step;
    if (step <= id && is_it(id - step)) return id - step;
  }
  std::string path(parent == kNone ? std::string_view{} : graph.modules[parent].path);
  if (!path.empty()) path += separator(graph.framework);
  return find_module(graph, path += leaf);
}

ModuleId parent_of(const ModelGraph& graph, ModuleId module) { return graph.modules[module].parent; }

std::string_view leaf_of(const ModelGraph& graph, std::string_view path) { return split_path(graph, path).second; }

// Compares up to a separator, because layers.1 is not an ancestor of layers.10.
bool is_below(const ModelGraph& graph, std::string_view path, std::string_view ancestor) {
  if (ancestor.empty() || path == ancestor) return true;
  return path.size() > ancestor.size() && path.starts_with(ancestor) &&
         path[ancestor.size()] == separator(graph.framework);
}

Span span_of(const ModelGraph& graph, const Param& param) {
  return {graph.file, param.offset, static_cast<uint32_t>(param.name.size() + 2)};
}

Span span_of(const ModelGraph& graph, const Module& module) { return {graph.file, module.offset, 1}; }

}  // namespace tpplan
