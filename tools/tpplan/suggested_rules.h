// `tpplan check --suggest`: rules for what no rule of the plan covers.
#pragma once

#include <string>

#include "commands.h"
#include "draft/suggest_rules.h"

namespace tpplan {

// For a session whose plan was read.
[[nodiscard]] RuleSuggestion suggest_for_session(const Session& session, const InputArguments& inputs);

// The difference that the rules make to the plan, as --fix shows its own, and what they leave; for people.
[[nodiscard]] std::string suggestion_text(const RuleSuggestion& suggestion, const SourceFile& plan);

// The member `suggestion` of schemas/diagnostics.schema.json.
[[nodiscard]] std::string suggestion_member(const RuleSuggestion& suggestion, const SourceFile& plan);

}  // namespace tpplan
