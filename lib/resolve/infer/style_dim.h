// The dim of a parameter that a style shards, as a dialect returns it, and checks that dialects share.
#pragma once

#include <string>

#include "diagnostics/diagnostics.h"
#include "model/model_graph.h"
#include "plan/tp_plan.h"
#include "resolve/match/match_table.h"

namespace tpplan {

struct InferenceInput {
  const TpPlan& plan;
  const ModelGraph& graph;
  Diagnostics& diagnostics;
};

enum class StyleDimKind : uint8_t { Replicated, Dim, Error };

struct StyleDim {
  StyleDimKind kind = StyleDimKind::Replicated;
  size_t dim = 0;  // with StyleDimKind::Dim
};

// Reports TP5009: the rule's style does not support the module. In the torch dialect, applying the plan would fail.
void report_unsupported(const InferenceInput& in, const ParamMatch& match, const Module& module, std::string message,
                        std::string help);

// Checks a boundary's module if its style is for linear or embedding layers and no parameter caused the check already.
// Returns false if the style does not support the module.
bool check_boundary_module(const InferenceInput& in, const MatchTable& matches, const BoundaryMatch& match);

}  // namespace tpplan
