// `tpplan check --suggest`: suggests rules for parameters without a rule.
#pragma once

#include <string>

#include "commands.h"
#include "suggest/suggest_rules.h"

namespace tpplan {

// Returns suggested rules for a session. @pre its plan was read.
[[nodiscard]] RuleSuggestion suggest_for_session(const Session& session, const InputArguments& inputs);

// Returns the suggestion as human-readable text: the diff of the plan, as with --fix, and the units that stay
// uncovered.
[[nodiscard]] std::string suggestion_text(const RuleSuggestion& suggestion, const SourceFile& plan);

// Returns the field `suggestion` of schemas/diagnostics.schema.json.
[[nodiscard]] std::string suggestion_field(const RuleSuggestion& suggestion, const SourceFile& plan);

}  // namespace tpplan
