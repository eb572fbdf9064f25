// Kinds of well-known module types, and the names of their parameters' dims. To add a type, add a row to the tables.
#pragma once

#include <span>
#include <string_view>

#include "model/model_graph.h"

namespace tpplan {

// Returns the kind of a module type. An exact row of the table takes precedence over a row for the name's ending
// ("LlamaRMSNorm" is a norm). By its ending a type is Linear or Embedding only if the module has direct parameters: a
// wrapper around a Linear is a container.
[[nodiscard]] ModuleKind kind_of_type(Framework framework, std::string_view type, bool owns_parameters);

// True for the modules that torch's ColwiseParallel and RowwiseParallel accept: nn.Linear, nn.Embedding and their
// subclasses (torch 2.13, style.py). Conv1D and EmbeddingBag are not among them.
[[nodiscard]] bool is_torch_linear_or_embedding(const ModelGraph& graph, const Module& module);

// Parses "linear", "embedding", "norm", "experts" or "other". Returns false for any other text.
[[nodiscard]] bool find_module_kind(std::string_view name, ModuleKind& kind);
[[nodiscard]] std::string_view to_text(ModuleKind kind);

// True for modules of kind Experts, and for modules with a number of experts in the model file.
[[nodiscard]] bool has_num_experts(const ModelGraph& graph, const Module& module);

// Returns which of `in_features` and `out_features` a module has. The model file takes precedence over the type.
[[nodiscard]] Features features_of(const ModelGraph& graph, const Module& module);

// Parses "none", "in", "out" or "both". Returns false for any other text.
[[nodiscard]] bool find_features(std::string_view name, Features& features);
[[nodiscard]] std::string_view to_text(Features features);

inline constexpr std::string_view kDimOut = "out", kDimIn = "in", kDimExpert = "expert";

// Returns the names of the parameter's dims: from the model file if it has them, else from the table. Empty if unknown.
[[nodiscard]] std::span<const std::string_view> dims_of(const ModelGraph& graph, const Module& module,
                                                        const Param& param);

// Returns the index of the dim called `name`, or -1.
[[nodiscard]] int find_dim(std::span<const std::string_view> dims, std::string_view name);

}  // namespace tpplan
