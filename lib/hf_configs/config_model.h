// Builds the ModelGraph of the model that transformers 5.23 builds from a Hugging Face config.json.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "diagnostics/diagnostics.h"
#include "hf_configs/read_config.h"
#include "model/model_graph.h"

namespace tpplan {

// The sizes of a config under names that all families share.
struct ConfigSizes {
  int64_t vocab = 0, hidden = 0, intermediate = 0, layers = 0, experts = 0, expert = 0, shared = 0;
  int64_t sparse_step = 1;
  std::vector<int64_t> dense_layers;
  ModuleAttributes heads;
  int64_t rotated = 0;  // dims of a head that rope rotates
  DType dtype = 0;
  bool has_dtype = true;        // the config names it
  std::string_view family;      // its model_type, which differs from the config's if the architecture determines it
  std::string_view activation;  // "silu"
};

// True if a layer of a family with mixed layers has experts.
[[nodiscard]] bool has_experts(const ConfigSizes& sizes, int64_t layer);

// Builds the causal language model of a family of config_families.h: modules, parameters and buffers in transformers'
// order, ties, segments of fused projections, heads. The config must have the five sizes of a model; other fields have
// the family's defaults. The graph and `sizes` can keep views into `config`. Reports TP6010 to TP6012. Returns false
// after any error.
[[nodiscard]] bool build_config_model(const ConfigFile& config, ModelGraph& graph, ConfigSizes& sizes,
                                      Diagnostics& diagnostics);

}  // namespace tpplan
