// Functions that build a ModelGraph without a model file.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/model_graph.h"

namespace tpplan {

// Appends a module. `path` and `type` must outlive the graph; intern_text stores them.
ModuleId add_module(ModelGraph& graph, std::string_view path, std::string_view type);

// Returns the index of a type in ModelGraph::types, and adds it if it is new.
[[nodiscard]] uint32_t intern_type(ModelGraph& graph, std::string_view type);

// Appends a parameter or buffer to the last module and returns it.
Param& add_param(ModelGraph& graph, std::string_view name, std::span<const int64_t> shape, DType dtype,
                 bool is_buffer = false);

// Sets the kinds of modules without one by their types. Called after all parameters are added.
void resolve_kinds(ModelGraph& graph);

void set_kind(Module& module, ModuleKind kind);
void set_attributes(ModelGraph& graph, Module& module, ModuleAttributes attributes);

// Sets the segments of a fused dim. @pre they add up to its size
void set_segments(ModelGraph& graph, Param& param, size_t dim, std::vector<int64_t> sizes);

[[nodiscard]] std::string_view intern_text(ModelGraph& graph, std::string text);

// Returns the segments of the out dim of a fused projection: q|k|v by heads for names such as `qkv_proj`, halves for
// `gate_up_proj`. Empty if the name does not determine them or the size does not fit (query_key_value interleaves by
// heads).
[[nodiscard]] std::vector<int64_t> fused_segments(std::string_view module_leaf, int64_t out,
                                                  const ModuleAttributes& heads);

}  // namespace tpplan
