// What well-known module types are and how the dims of their parameters are called. Two tables; a new type is a row.
#pragma once

#include <span>
#include <string_view>

#include "model/model_graph.h"

namespace tpplan {

// The kind of a type by its name: an exact row of the table first, then by the name's ending ("LlamaRMSNorm" is a
// norm). A guess by the ending counts for Linear and Embedding only when the module itself owns a parameter: a wrapper
// around a Linear is a container.
[[nodiscard]] ModuleKind kind_of_type(Framework framework, std::string_view type, bool owns_parameters);

// True for what torch's ColwiseParallel and RowwiseParallel take: nn.Linear, nn.Embedding and their subclasses
// (torch 2.13, style.py), which Conv1D and EmbeddingBag are not.
[[nodiscard]] bool is_torch_linear_or_embedding(const ModelGraph& graph, const Module& module);

// Reads "linear", "embedding", "norm", "experts", "other". False on anything else.
[[nodiscard]] bool find_module_kind(std::string_view name, ModuleKind& kind);
[[nodiscard]] std::string_view to_text(ModuleKind kind);

// True for experts and for modules of which the model file says how many experts they have.
[[nodiscard]] bool has_num_experts(const ModelGraph& graph, const Module& module);

// Which of `in_features` and `out_features` a module has: by the model file where it says so, else by its type.
[[nodiscard]] Features features_of(const ModelGraph& graph, const Module& module);

// Reads "none", "in", "out", "both". False on anything else.
[[nodiscard]] bool find_features(std::string_view name, Features& features);
[[nodiscard]] std::string_view to_text(Features features);

inline constexpr std::string_view kDimOut = "out", kDimIn = "in", kDimExpert = "expert";

// Names of the parameter's dims, from the model file where it gives them, else by the table; empty when unknown.
[[nodiscard]] std::span<const std::string_view> dims_of(const ModelGraph& graph, const Module& module,
                                                        const Param& param);

// Position of the dim called `name`, or -1.
[[nodiscard]] int find_dim(std::span<const std::string_view> dims, std::string_view name);

}  // namespace tpplan
