// Scopes of rules, shared by the dialects: the model, or the modules of a block.
#pragma once

#include "resolve/match/match_table.h"

namespace tpplan {

// Rules that are matched in the same scope: the model, or each module of a block.
struct RuleScope {
  std::vector<RuleId> rules;
  std::vector<ModuleId> modules;  // modules of the block, none inside another; empty for the scope of the model
};

// All scopes: first the model, then one per block. Memory is linear in the matches of blocks, not in blocks times
// modules.
struct RuleScopes {
  std::vector<RuleScope> list;
  std::vector<std::vector<uint32_t>>
      begins_at;  // by ModuleId: scopes of blocks with rules that contain the module in `modules`; empty without blocks
};

// Returns the scopes of a plan. Reports blocks that match nothing.
[[nodiscard]] RuleScopes rule_scopes(const TpPlan& plan, const ModelGraph& graph, Diagnostics& diagnostics);

// A scope around a module, and the module that its keys are relative to (kNone: the model).
struct EnclosingScope {
  uint32_t scope = 0;
  ModuleId base = kNone;
};

// Stores the scopes with rules that contain `module` in `enclosing`, in the order of RuleScopes::list.
void enclosing_scopes(const ModelGraph& graph, const RuleScopes& scopes, ModuleId module,
                      std::vector<EnclosingScope>& enclosing);

// Returns the path of a module or parameter relative to a scope's base.
[[nodiscard]] std::string_view relative_path(const ModelGraph& graph, EnclosingScope scope, std::string_view path);

// Reports two equally exact rules for the same parameter: TP4003 if they differ, TP4004 if they agree.
void report_equal_rules(const TpPlan& plan, RuleId first, RuleId second, std::string_view path, bool agree,
                        Diagnostics& diagnostics, uint64_t times = 1);

}  // namespace tpplan
