// A Hugging Face config.json -> the ModelGraph of the model that transformers 5.23 builds of it.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "diagnostics/diagnostics.h"
#include "model/model_graph.h"
#include "weights/read_config.h"

namespace tpplan {

// What the config says, by the names that every family has for it.
struct ConfigSizes {
  int64_t vocab = 0, hidden = 0, intermediate = 0, layers = 0, experts = 0, expert = 0, shared = 0;
  int64_t sparse_step = 1;
  std::vector<int64_t> dense_layers;
  ModuleAttributes heads;
  int64_t rotated = 0;  // dims of a head that rope turns
  DType dtype = 0;
  std::string_view activation;  // "silu"
};

// Whether a layer of a family that mixes both is of experts.
[[nodiscard]] bool is_sparse(const ConfigSizes& sizes, int64_t layer);

// Builds the causal language model of a family of config_families.h: modules, parameters and buffers in transformers'
// order, ties, segments of fused projections, heads. The five sizes of a model must stand in the config; other fields
// have the family's defaults. The graph and `sizes` may keep views into `config`. Reports TP6010-TP6012; false after
// any error.
[[nodiscard]] bool build_config_model(const ConfigFile& config, ModelGraph& graph, ConfigSizes& sizes,
                                      Diagnostics& diagnostics);

}  // namespace tpplan
