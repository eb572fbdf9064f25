// Rules that a plan needs for layers of a unit without a rule.
#pragma once

#include <string>
#include <vector>

#include "model/model_graph.h"
#include "plan/tp_plan.h"
#include "resolve/match/match_table.h"
#include "suggest/find_units.h"
#include "suggest/unit_strategies.h"

namespace tpplan {

// A model and the original plan, before rules are added.
struct RuleDraftInput {
  const ModelGraph& graph;
  const TpPlan& plan;
  const MatchTable& matches;
  AxisId axis = kNoAxis;  // axis_of(plan)
};

// A rule for all modules of a layer that have no rule.
struct WantedRule {
  const DraftLayer* layer = nullptr;
  std::vector<ModuleId> modules;
  std::vector<std::string> paths;  // by module
  DraftKey key;
  PlanRule rule;
};

// Returns the plan's default axis for styles; if it has none, the axis over which most rules shard. Data axes in specs
// do not count.
[[nodiscard]] AxisId axis_of(const TpPlan& plan);

// Returns the strategies of a unit that the plan's dialect can express, sorted by the count of layers whose existing
// rules disagree. Without operations, returns only strategies without disagreement, because the walk cannot check
// others.
[[nodiscard]] std::vector<const UnitStrategy*> strategies_of(const RuleDraftInput& w, const DraftUnit& unit);

// Returns the rules of strategy `strategy` for layers without a rule in `current`, the matches of the edited plan.
// `strategy` is nullptr to replicate the unit. Large layers without a style in the strategy get an explicit replicate
// rule if the dialect has one.
[[nodiscard]] std::vector<WantedRule> wanted_rules(const RuleDraftInput& w, const MatchTable& current,
                                                   const DraftUnit& unit, const UnitStrategy* strategy);

}  // namespace tpplan
