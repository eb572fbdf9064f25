// A plan -> rules for what none of its rules covers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "diagnostics/text_edits.h"
#include "draft/text_trial.h"
#include "model/model_graph.h"
#include "plan/read_plan.h"
#include "plan/tp_plan.h"
#include "walk/walk_graph.h"

namespace tpplan {

struct SuggestedRule {
  std::string block, key;              // of a rule of whole paths `block` is empty
  std::string treatment;               // as it stands behind the key
  uint64_t parameters = 0, bytes = 0;  // that it decides over, and no rule did
};

// What stays without a rule, and why.
struct LeftUnit {
  std::string path;  // with stars for what is repeated
  std::string reason;
};

struct RuleSuggestion {
  std::vector<SuggestedRule> rules;
  std::vector<TextEdit> edits;  // that write them into the plan, none over another, ascending
  std::string text;             // of the plan with them
  std::vector<LeftUnit> left;
  FoundCounts before, after;  // of the plan as it is, and with the rules
  bool is_walked = false;     // the operations were judged; else names, shapes and heads
};

// Looks for units of the model (find_units.h) of which layers have no rule, and gives these layers the rules of the
// first way (unit_ways.h) that is as the plan cuts the unit's other layers, and with which the plan's own text, edited,
// is found to have no fault that it does not have now; where the plan is wrong, one with which less is wrong. Keys are
// those of the rules that stand nearest, with other names.
// @pre `file` has been read as a plan without an error. The model's operations are proven (ops/prove_shapes.h).
[[nodiscard]] RuleSuggestion suggest_rules(const ModelGraph& graph, const SourceFile& file, const MeshSizes& mesh_sizes,
                                           const WalkOptions& walk);

}  // namespace tpplan
