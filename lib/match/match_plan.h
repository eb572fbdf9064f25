// TpPlan x ModelGraph -> which rule decides over each parameter and each module boundary.
#pragma once

#include <vector>

#include "diagnostics/diagnostics.h"
#include "model/model_graph.h"
#include "plan/tp_plan.h"

namespace tpplan {

struct ParamMatch {
  RuleId rule = kNoRule;
  bool by_module = false;  // the key names the module that owns the parameter
};

// A rule that acts on the inputs and outputs of a module.
struct BoundaryMatch {
  ModuleId module = 0;
  RuleId rule = 0;
};

struct RuleMatches {
  uint64_t parameters = 0;  // matched, whether or not another rule wins
  uint64_t modules = 0;
  uint64_t governed = 0;   // parameters that the rule decides over
  bool repeats = false;    // another rule says the same about all that it matches
  bool addressed = false;  // the key names anything at all
};

struct MatchTable {
  std::vector<ParamMatch> params;         // by ParamId
  std::vector<BoundaryMatch> boundaries;  // by module in file order, then by rule
  std::vector<RuleMatches> rules;         // by RuleId
};

// Matches by the plan's dialect (plan/dialects.h) and reports dead, shadowed, repeated and contradicting rules.
MatchTable match_plan(const TpPlan& plan, const ModelGraph& graph, Diagnostics& diagnostics);

// Number that the manifest gives as a rule's `matches`: modules for rules that act on modules only, else parameters.
uint64_t match_count(const PlanRule& rule, const RuleMatches& matches);

// `--print matches`: each parameter with its rule, each boundary, each rule's counts.
std::string dump(const MatchTable& table, const TpPlan& plan, const ModelGraph& graph);

}  // namespace tpplan
