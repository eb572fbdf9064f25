// Which rules a plan would need for the layers of a unit that have none.
#pragma once

#include <string>
#include <vector>

#include "draft/find_units.h"
#include "draft/unit_ways.h"
#include "match/match_plan.h"
#include "model/model_graph.h"
#include "plan/tp_plan.h"

namespace tpplan {

// A model and a plan, as it was read and matched before anything was added to it.
struct RuleWants {
  const ModelGraph& graph;
  const TpPlan& plan;
  const MatchTable& matches;
  AxisId axis = kNoAxis;  // axis_of(plan)
};

// A rule for all modules of a member that have none.
struct WantedRule {
  const DraftMember* member = nullptr;
  std::vector<ModuleId> modules;
  std::vector<std::string> paths;  // by module
  DraftKey key;
  PlanRule rule;
};

// The axis of styles that name none; else the one that most rules shard over, data axes aside.
[[nodiscard]] AxisId axis_of(const TpPlan& plan);

// The ways of the unit that the plan's dialect has words for, those first with which it agrees; with others only where
// operations judge them.
[[nodiscard]] std::vector<const UnitWay*> ways_of(const RuleWants& w, const DraftUnit& unit);

// By a way, or with nullptr whole, of what `current`, the matches of the plan as it stands now, leaves without a rule.
// What is large and has no style in the way is said to be whole on purpose, in dialects that have a word for it.
[[nodiscard]] std::vector<WantedRule> wanted_rules(const RuleWants& w, const MatchTable& current, const DraftUnit& unit,
                                                   const UnitWay* way);

}  // namespace tpplan
