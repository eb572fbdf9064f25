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
  uint32_t dims = kNone;   // where the rules of its dims begin in MatchTable::dim_rules; kNone: `rule` has them all
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
  bool clashes = false;    // with a rule that is as exact and stands before it: TP4003 or TP4004 says so
  bool addressed = false;  // the key names anything at all
};

// What a pattern beside the rules matches.
struct PatternCount {
  uint64_t matched = 0;  // modules, or parameters and buffers
  uint64_t first = 0;    // of `init`: those of which no pattern above matched
};

// What the patterns select that stand in a plan beside its rules.
struct PatternMatches {
  std::vector<ModuleId> fsdp_units, remat;          // the outermost matches, each once, in file order
  std::vector<bool> fsdp_params;                    // by ParamId: `fsdp.patterns` select it; empty: all are
  std::vector<uint32_t> init_params, init_buffers;  // the first entry of TpPlan::init, or kNone; empty: there are none
  std::vector<PatternCount> of_fsdp_patterns, of_fsdp_units, of_remat, of_init;  // by pattern
};

struct MatchTable {
  std::vector<ParamMatch> params;         // by ParamId
  std::vector<BoundaryMatch> boundaries;  // by module in file order, then by rule
  std::vector<RuleMatches> rules;         // by RuleId
  std::vector<RuleId> dim_rules;          // of parameters whose dims have each its own rule, one a dim; kNoRule: none
  PatternMatches patterns;
};

// Matches rules by the plan's dialect (plan/dialects.h), and everything else by match_patterns. Reports dead, shadowed,
// repeated and contradicting rules, and dead patterns. `hits`: of plans before, for who has many (match/key_hits.h).
[[nodiscard]] MatchTable match_plan(const TpPlan& plan, const ModelGraph& graph, Diagnostics& diagnostics,
                                    KeyHits* hits = nullptr);

// The rule that decides over a dim of a parameter.
[[nodiscard]] RuleId rule_of_dim(const MatchTable& table, const ParamMatch& match, size_t dim);

// Number that the manifest gives as a rule's `matches`: modules for rules that act on modules only, else parameters.
[[nodiscard]] uint64_t match_count(const PlanRule& rule, const RuleMatches& matches);

// `--print matches`: each parameter with its rule, each boundary, what patterns select, each rule's and pattern's
// counts.
[[nodiscard]] std::string dump(const MatchTable& table, const TpPlan& plan, const ModelGraph& graph);

}  // namespace tpplan
