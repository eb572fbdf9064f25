// What `run` found, as tables and as JSON.
#pragma once

#include <string>
#include <string_view>

#include "run_outcome.h"

namespace tpplan {

// For people: a table of the redistributions, one of the products, and the verdict.
[[nodiscard]] std::string redistributions_text(const Manifest& manifest, const Outcome& outcome);
[[nodiscard]] std::string products_text(const Manifest& manifest, const Outcome& outcome);
[[nodiscard]] std::string summary_text(const Outcome& outcome);

// For programs: the same numbers as a line of JSON a step.
[[nodiscard]] std::string outcome_json(const Manifest& manifest, const Outcome& outcome, std::string_view backend);

}  // namespace tpplan
