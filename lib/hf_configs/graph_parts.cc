#include "hf_configs/graph_parts.h"

#include <algorithm>

#include "model/attention_names.h"
#include "model/module_kinds.h"

namespace tpplan {
namespace {

// Names of linear modules whose rows are those of gate, then those of up.
constexpr std::string_view kGateUpInBlocks[] = {"gate_up_proj"};

bool holds(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

// Types are searched linearly, because a model has at most about twenty of them.
uint32_t intern_type(ModelGraph& graph, std::string_view type) {
  const auto known = std::ranges::find(graph.types, type);
  const auto index = static_cast<uint32_t>(known - graph.types.begin());
  if (known == graph.types.end()) graph.types.push_back(type);
  return index;
}

ModuleId add_module(ModelGraph& graph, std::string_view path, std::string_view type) {
  graph.modules.push_back(
      {.path = path, .type = intern_type(graph, type), .first_param = static_cast<ParamId>(graph.params.size())});
  return static_cast<ModuleId>(graph.modules.size() - 1);
}

Param& add_param(ModelGraph& graph, std::string_view name, std::span<const int64_t> shape, DType dtype,
                 bool is_buffer) {
  Param param{.name = name,
              .module = static_cast<ModuleId>(graph.modules.size() - 1),
              .shape_begin = static_cast<uint32_t>(graph.sizes.size()),
              .ndim = static_cast<uint8_t>(shape.size()),
              .dtype = dtype,
              .is_buffer = is_buffer};
  graph.sizes.insert(graph.sizes.end(), shape.begin(), shape.end());
  if (!is_buffer) ++graph.modules.back().param_count;
  return (is_buffer ? graph.buffers : graph.params).emplace_back(param);
}

void resolve_kinds(ModelGraph& graph) {
  for (Module& module : graph.modules) {
    if (!module.kind_is_given)
      module.kind = kind_of_type(graph.framework, type_of(graph, module), module.param_count > 0);
  }
}

void set_kind(Module& module, ModuleKind kind) {
  module.kind = kind;
  module.kind_is_given = true;
}

void set_attributes(ModelGraph& graph, Module& module, ModuleAttributes attributes) {
  const std::pair<std::string_view, int64_t> values[] = {{"num_heads", attributes.num_heads},
                                                         {"num_kv_heads", attributes.num_kv_heads},
                                                         {"head_dim", attributes.head_dim},
                                                         {"num_experts", attributes.num_experts}};
  std::ranges::copy_if(values, std::back_inserter(attributes.integers), [](const auto& row) { return row.second > 0; });
  module.attributes = static_cast<uint32_t>(graph.attributes.size());
  graph.attributes.push_back(std::move(attributes));
}

void set_segments(ModelGraph& graph, Param& param, size_t dim, std::vector<int64_t> sizes) {
  param.extras = static_cast<uint32_t>(graph.extras.size());
  graph.extras.push_back({.dims = {}, .segments = {{dim, std::move(sizes)}}, .granularity = {}});
}

std::string_view intern_text(ModelGraph& graph, std::string text) {
  return graph.strings.emplace_back(std::move(text));
}

std::vector<int64_t> fused_segments(std::string_view module_leaf, int64_t out, const ModuleAttributes& heads) {
  const int64_t query = heads.num_heads * heads.head_dim, key = heads.num_kv_heads * heads.head_dim;
  const bool fits = query > 0 && query <= out && (out - query) % 2 == 0 && (out - query) / 2 == key;
  if (role_of(module_leaf) == HeadRole::FusedInBlocks && fits) return {query, key, key};
  if (holds(kGateUpInBlocks, module_leaf) && out > 0 && out % 2 == 0) return {out / 2, out / 2};
  return {};
}

}  // namespace tpplan
