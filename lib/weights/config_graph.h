// The operations of a config's model: the recorded graph of its family (lib/weights/templates) that fits its flags, at
// its sizes.
#pragma once

#include <string>

#include "model/model_graph.h"
#include "weights/config_model.h"
#include "weights/read_config.h"

namespace tpplan {

// The member `graph` of the model that build_config_model made of `config`, as JSON: what python -m tpplan.export
// writes of it by itself, with a batch of 2 and sequences of 64. Empty where no recorded graph is this model's, and a
// warning (TP6013) at the field that it is for.
[[nodiscard]] std::string config_graph(const ConfigFile& config, const ConfigSizes& sizes, const ModelGraph& model,
                                       Diagnostics& diagnostics);

}  // namespace tpplan
