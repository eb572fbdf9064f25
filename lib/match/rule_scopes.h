// Where rules look for what they match: the whole model, or inside the modules of a block. Dialects share it.
#pragma once

#include "match/match_plan.h"

namespace tpplan {

// Where rules with the same scope look: the whole model, or inside each module of a block.
struct RuleScope {
  std::vector<RuleId> rules;
  std::vector<ModuleId> modules;  // blocks: the block's modules, none inside another; whole model: empty
};

// The whole model's scope first, then one a block. What it takes grows with the modules that blocks match, not with
// blocks times modules.
struct RuleScopes {
  std::vector<RuleScope> list;
  std::vector<std::vector<uint32_t>>
      begins_at;  // by ModuleId: the blocks' scopes with rules of which it is a module; without blocks: empty
};

// Blocks that match nothing are reported.
[[nodiscard]] RuleScopes rule_scopes(const TpPlan& plan, const ModelGraph& graph, Diagnostics& diagnostics);

// A scope around a module, and the module that its keys are relative to: kNone, the whole model.
struct EnclosingScope {
  uint32_t scope = 0;
  ModuleId base = kNone;
};

// The scopes with rules that `module` stands in, in the order of RuleScopes::list.
void enclosing_scopes(const ModelGraph& graph, const RuleScopes& scopes, ModuleId module,
                      std::vector<EnclosingScope>& enclosing);

// The path of a module or a parameter in a scope, as the scope's keys see it.
[[nodiscard]] std::string_view relative_path(const ModelGraph& graph, EnclosingScope scope, std::string_view path);

// Two rules that decide over the same parameter differently (TP4003) or alike (TP4004).
void report_clash(const TpPlan& plan, RuleId first, RuleId second, std::string_view path, bool agree,
                  Diagnostics& diagnostics, uint64_t times = 1);

}  // namespace tpplan
