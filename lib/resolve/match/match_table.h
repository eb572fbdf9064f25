// The rule of each parameter and each module boundary.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "diagnostics/diagnostics.h"
#include "model/model_graph.h"
#include "plan/tp_plan.h"

namespace tpplan {

struct ParamMatch {
  RuleId rule = kNoRule;
  bool by_module = false;  // the key names the module that owns the parameter
  uint32_t dims = kNone;   // index of its first dim in MatchTable::dim_rules; kNone: `rule` applies to all dims
};

// A rule that acts on the inputs and outputs of a module.
struct BoundaryMatch {
  ModuleId module = 0;
  RuleId rule = 0;
};

struct RuleMatches {
  uint64_t parameters = 0;  // matched, even if another rule takes precedence
  uint64_t modules = 0;
  uint64_t governed = 0;   // parameters that the rule applies to
  bool clashes = false;    // an earlier rule is equally exact; TP4003 or TP4004 is reported
  bool addressed = false;  // the key matches a module or parameter
};

// Match counts of a pattern outside the rules.
struct PatternCount {
  uint64_t matched = 0;  // modules, or parameters and buffers
  uint64_t first = 0;    // `init` only: matches that no earlier pattern has
};

// A module whose code divides attributes by the size of the plan's axis.
struct LocalModule {
  ModuleId module = 0;
  std::vector<std::pair<std::string_view, int64_t>> divided;  // by name, with their global values
};

// Matches of the patterns outside the rules of a plan.
struct PatternMatches {
  std::vector<ModuleId> fsdp_units, remat;          // the outermost matches, each once, in file order
  std::vector<bool> fsdp_params;                    // by ParamId: selected by `fsdp.patterns`; empty: all selected
  std::vector<uint32_t> init_params, init_buffers;  // first matching entry of TpPlan::init, or kNone; empty: no `init`
  std::vector<LocalModule> local_modules;           // ascending, each once
  std::vector<PatternCount> of_fsdp_patterns, of_fsdp_units, of_remat, of_init;  // by pattern
};

struct MatchTable {
  std::vector<ParamMatch> params;         // by ParamId
  std::vector<BoundaryMatch> boundaries;  // by module in file order, then by rule
  std::vector<RuleMatches> rules;         // by RuleId
  std::vector<RuleId> dim_rules;          // one per dim, for parameters with a rule per dim; kNoRule: no rule
  PatternMatches patterns;
};

// Returns the rule of a dim of a parameter.
[[nodiscard]] RuleId rule_of_dim(const MatchTable& table, const ParamMatch& match, size_t dim);

// Returns a rule's `matches` in the manifest: the count of modules if the rule affects modules only, else of
// parameters.
[[nodiscard]] uint64_t match_count(const PlanRule& rule, const RuleMatches& matches);

}  // namespace tpplan
