// What builds a ModelGraph without a model file: modules, parameters and segments, one after the other.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/model_graph.h"

namespace tpplan {

// Adds a module at the end. `path` and `type` must live as long as the graph; keep_text makes them.
ModuleId add_module(ModelGraph& graph, std::string_view path, std::string_view type);

// Adds a parameter or buffer of the last module, and the graph's place of it.
Param& add_param(ModelGraph& graph, std::string_view name, std::span<const int64_t> shape, DType dtype,
                 bool is_buffer = false);

// The kinds of modules that were not given one, by their types. Asked once all parameters are there.
void resolve_kinds(ModelGraph& graph);

void set_kind(Module& module, ModuleKind kind);
void set_attributes(ModelGraph& graph, Module& module, const ModuleAttributes& attributes);

// The parameter's dim `dim` is fused of these parts, which add up to it.
void set_segments(ModelGraph& graph, Param& param, size_t dim, std::vector<int64_t> sizes);

[[nodiscard]] std::string_view keep_text(ModelGraph& graph, std::string text);

// Where the out dim of a fused projection has its seams: q|k|v by heads under names such as `qkv_proj`, halves under
// `gate_up_proj`. Empty where the name does not say it or the size is another one (query_key_value interleaves by
// heads).
[[nodiscard]] std::vector<int64_t> fused_segments(std::string_view module_leaf, int64_t out,
                                                  const ModuleAttributes& heads);

}  // namespace tpplan
