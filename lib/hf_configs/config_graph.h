// The operations of a config's model: the traced graph of its family (lib/hf_configs/templates) for its flags, at its
// sizes.
#pragma once

#include <string>

#include "hf_configs/config_model.h"
#include "hf_configs/read_config.h"
#include "model/model_graph.h"

namespace tpplan {

// Returns the field `graph` of the model that build_config_model made of `config`, as JSON: what python -m
// tpplan.export writes by default, with a batch of 2 and sequences of 64. If no traced graph fits the model, reports a
// warning (TP6013) at the field that is the cause and returns an empty text.
[[nodiscard]] std::string config_graph(const ConfigFile& config, const ConfigSizes& sizes, const ModelGraph& model,
                                       Diagnostics& diagnostics);

}  // namespace tpplan
