// Which dim of a parameter a style cuts: what a dialect answers, and what its answers share.
#pragma once

#include <string>

#include "diagnostics/diagnostics.h"
#include "match/match_plan.h"
#include "model/model_graph.h"
#include "plan/tp_plan.h"

namespace tpplan {

struct Inference {
  const TpPlan& plan;
  const ModelGraph& graph;
  Diagnostics& diagnostics;
};

enum class CutKind : uint8_t { Whole, Dim, Fault };

struct Cut {
  CutKind kind = CutKind::Whole;
  size_t dim = 0;  // with CutKind::Dim
};

// TP5009: the rule's style does not fit the module. Where the dialect's framework applies the plan, that fails.
void report_unsupported(const Inference& in, const ParamMatch& match, const Module& module, std::string message,
                        std::string help);

// Asks about the module of a boundary whose style is for linear layers, where no parameter of it has made it be asked
// already. False when it is not supported.
bool check_unasked_module(const Inference& in, const MatchTable& matches, const BoundaryMatch& match);

}  // namespace tpplan
