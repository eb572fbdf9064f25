// A Hugging Face config.json -> the ModelGraph of the model that transformers 5.23 builds of it.
#pragma once

#include "diagnostics/diagnostics.h"
#include "model/model_graph.h"
#include "weights/read_config.h"

namespace tpplan {

// Builds the causal language model of a family of config_families.h: modules, parameters and buffers in transformers'
// order, ties, segments of fused projections, heads. The five sizes of a model must stand in the config; other fields
// have the family's defaults. The graph may keep views into `config`. Reports TP6010-TP6012; false after any error.
[[nodiscard]] bool build_config_model(const ConfigFile& config, ModelGraph& graph, Diagnostics& diagnostics);

}  // namespace tpplan
