// A plan's text, judged as a trial: what is found in it, and what is new beside the text before.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "diagnostics/diagnostics.h"
#include "draft/find_units.h"
#include "judge.h"
#include "match/match_plan.h"
#include "model/model_graph.h"
#include "plan/read_plan.h"
#include "plan/tp_plan.h"
#include "walk/walk_graph.h"

namespace tpplan {

struct TrialFinding {
  std::string text;
  bool is_error = false;
  Code code{};
  uint64_t count = 1;
};

struct FoundCounts {
  size_t errors = 0, warnings = 0;
};

struct TextTrial {
  bool is_read = false;
  TpPlan plan;
  MatchTable matches;
  Phase reached = Phase::Plan;
  std::vector<TrialFinding> findings;  // but those that only say how much no rule covers
  FoundCounts counts;                  // of all
};

[[nodiscard]] TextTrial try_text(const ModelGraph& graph, const SourceFile& file, const MeshSizes& sizes,
                                 const WalkOptions& walk);

// Fewer errors; of as many, fewer findings.
[[nodiscard]] bool is_better(const TextTrial& before, const TextTrial& after);

// The first fault of a plan that the one before it had not; empty where there is none. A finding of many layers names
// the first of them: where some are mended, it names another one. Where an error is gone, phases behind it speak for
// the first time: their warnings are no fault of the change.
[[nodiscard]] std::string new_fault(const TextTrial& before, const TextTrial& after);

// The rule that decides over what the member's key names in a module; kNoRule where none does.
[[nodiscard]] RuleId rule_of(const ModelGraph& graph, const MatchTable& matches, const DraftMember& member,
                             ModuleId id);

[[nodiscard]] bool is_covered(const ModelGraph& graph, const MatchTable& matches, const DraftMember& member,
                              ModuleId id);

// The member's modules that no rule decides over.
[[nodiscard]] std::vector<ModuleId> uncovered(const ModelGraph& graph, const MatchTable& matches,
                                              const DraftMember& member);

using RuleName = std::pair<std::string_view, std::string_view>;  // block and key

[[nodiscard]] RuleName name_of(const TpPlan& plan, RuleId id);

// By rule of the plan: whether the other one has it.
[[nodiscard]] std::vector<bool> known_rules(const TpPlan& plan, const TpPlan& other);

// True where what had a rule has that one still.
[[nodiscard]] bool keeps_rules(const TextTrial& before, const TextTrial& after);

}  // namespace tpplan
