// The output of `tpplan propagate`.
#pragma once

#include <string>

#include "programs/propagate_program.h"

namespace tpplan {

// Writes schemas/propagation.schema.json: `values` and `collectives`.
[[nodiscard]] std::string propagation_json(const Propagation& propagation);

}  // namespace tpplan
