// Suggested rules for layers that no rule of a plan covers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "diagnostics/text_edits.h"
#include "judge/judge.h"
#include "plan/read_plan.h"
#include "plan/tp_plan.h"
#include "suggest/text_trial.h"

namespace tpplan {

struct SuggestedRule {
  std::string block, key;              // `block` is empty if the key is a full path
  std::string treatment;               // value of the rule in the plan's text
  uint64_t parameters = 0, bytes = 0;  // of the parameters that it covers
};

// A unit that remains without a rule, and the reason.
struct UncoveredUnit {
  std::string path;  // with stars for repeated blocks
  std::string reason;
};

struct RuleSuggestion {
  std::vector<SuggestedRule> rules;
  std::vector<TextEdit> edits;  // add `rules` to the plan; disjoint, ascending
  std::string text;             // of the edited plan
  std::vector<UncoveredUnit> uncovered_units;
  FoundCounts before, after;  // diagnostics of the plan without and with `rules`
  bool is_walked = false;     // the walk checked the operations; false: only names, shapes and heads were checked
};

// Suggests rules for units (find_units.h) that have layers without a rule. A unit gets the rules of the first strategy
// (unit_strategies.h) whose edit of the plan's text adds no diagnostic. Strategies that agree with the existing rules
// of the unit's other layers are tried first. If the plan has diagnostics, a later strategy may replace a first one
// that needs no new rule, if it leaves fewer. Keys follow the form of the keys of the nearest rules.
// @pre `file` has been read as a plan without errors, and the model's operations are proven (ops/prove_shapes.h)
[[nodiscard]] RuleSuggestion suggest_rules(Checker& checker, const SourceFile& file, const MeshSizes& mesh_sizes,
                                           const WalkOptions& walk);

}  // namespace tpplan
