// Sets the module and parameter paths of a diagnostic.
#pragma once

#include "diagnostics/diagnostics.h"
#include "model/model_graph.h"

namespace tpplan {

// Sets the diagnostic's `module` to the path of `module`.
void name_subject(Diagnostic& d, const Module& module);

// Sets the diagnostic's `parameter`, and `module` to the module that owns it.
void name_subject(Diagnostic& d, const ModelGraph& graph, const Param& param);

}  // namespace tpplan
