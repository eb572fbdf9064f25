// The dialects: one function each, the same shape. A new dialect is a function here, a file, and a row in match_plan.cc.
#pragma once

#include "match/match_plan.h"

namespace tpplan {

// glob and regex: keys address whole paths of modules and parameters, the more exact key wins.
void match_paths(const TpPlan& plan, const ModelGraph& graph, MatchTable& table, Diagnostics& diagnostics);

// torch 2.13, parallelize_module: fnmatch one dotted atom at a time over child modules; every match applies.
void match_torch(const TpPlan& plan, const ModelGraph& graph, MatchTable& table, Diagnostics& diagnostics);

// transformers 5.23: `.12.` becomes `.*.`, then an exact look-up; parameters also one level up.
void match_transformers(const TpPlan& plan, const ModelGraph& graph, MatchTable& table, Diagnostics& diagnostics);

// Keras 3.15 LayoutMap, with the separators of Keras and torch taken for the same.
void match_keras(const TpPlan& plan, const ModelGraph& graph, MatchTable& table, Diagnostics& diagnostics);

// ---- shared by the dialects ----

// Where rules with the same scope look: the whole model, or inside each module of a block.
struct RuleScope {
  std::vector<RuleId> rules;
  std::vector<ModuleId> enclosing;  // blocks: by ModuleId, the block's module around it or kNone; whole model: empty
};

// The whole model's scope first, then one a block. Blocks that match nothing are reported.
std::vector<RuleScope> rule_scopes(const TpPlan& plan, const ModelGraph& graph, Diagnostics& diagnostics);

// `path` as the scope's keys see it. False when the module stands outside the scope.
bool relative_path(const RuleScope& scope, const ModelGraph& graph, ModuleId module, std::string_view path, std::string_view& relative);

// Two rules that decide over the same parameter differently (TP4003) or alike (TP4004).
void report_clash(const TpPlan& plan, RuleId first, RuleId second, std::string_view path, bool agree, Diagnostics& diagnostics);


}  // namespace tpplan
