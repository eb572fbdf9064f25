// Trial check of a plan's text: its diagnostics, and a comparison with those of another text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "diagnostics/diagnostics.h"
#include "judge/judge.h"
#include "model/model_graph.h"
#include "plan/read_plan.h"
#include "plan/tp_plan.h"
#include "resolve/match/match_table.h"
#include "suggest/find_units.h"
#include "walk/walk_graph.h"

namespace tpplan {

struct TrialDiagnostic {
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
  std::vector<TrialDiagnostic> findings;  // without those on coverage
  FoundCounts counts;                     // of all diagnostics
};

[[nodiscard]] TextTrial check_plan_text(Checker& checker, const SourceFile& file, const MeshSizes& sizes,
                                        const WalkOptions& walk);

// True if `after` has fewer errors, or as many errors and fewer diagnostics.
[[nodiscard]] bool is_better(const TextTrial& before, const TextTrial& after);

// Returns the text of the first diagnostic in `after` that `before` does not have; empty if there is none. A diagnostic
// counts as known if its code covers fewer layers than before: its text names the first layer, which may differ. If
// `before` has errors, new warnings are ignored, because later phases may not have run.
[[nodiscard]] std::string first_new_diagnostic(const TextTrial& before, const TextTrial& after);

// Returns the first rule that applies to the parameters of a member in a module; kNoRule if there is none.
[[nodiscard]] RuleId rule_of(const ModelGraph& graph, const MatchTable& matches, const DraftLayer& layer, ModuleId id);

[[nodiscard]] bool is_covered(const ModelGraph& graph, const MatchTable& matches, const DraftLayer& layer, ModuleId id);

// Returns the modules of a member that no rule covers.
[[nodiscard]] std::vector<ModuleId> uncovered_modules(const ModelGraph& graph, const MatchTable& matches,
                                                      const DraftLayer& layer);

using RuleBlockAndKey = std::pair<std::string_view, std::string_view>;  // block and key

[[nodiscard]] RuleBlockAndKey name_of(const TpPlan& plan, RuleId id);

// Returns, for each rule of `plan`, whether `other` has a rule with the same name.
[[nodiscard]] std::vector<bool> rules_in_both(const TpPlan& plan, const TpPlan& other);

// True if every parameter with a rule in `before` has the same rule in `after`, and `after` has no fewer boundaries.
[[nodiscard]] bool preserves_rules(const TextTrial& before, const TextTrial& after);

}  // namespace tpplan
