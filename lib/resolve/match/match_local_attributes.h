// Matching of `local_attributes`: globs over full paths of modules, in every dialect.
#pragma once

#include "resolve/match/match_table.h"

namespace tpplan {

// Returns the matching modules with the attributes that their code divides. Reports a pattern that matches no module
// (TP4009), and an attribute that the module lacks or that the axis does not divide (TP4015).
[[nodiscard]] std::vector<LocalModule> match_local_attributes(const TpPlan& plan, const ModelGraph& graph,
                                                              Diagnostics& diagnostics);

}  // namespace tpplan
