// Writes the results of `run` as tables and as JSON.
#pragma once

#include <string>
#include <string_view>

#include "run_outcome.h"

namespace tpplan {

// Human-readable: a table of the redistributions, one of the matmuls, and the summary.
[[nodiscard]] std::string redistributions_text(const Manifest& manifest, const Outcome& outcome);
[[nodiscard]] std::string matmuls_text(const Manifest& manifest, const Outcome& outcome);
[[nodiscard]] std::string summary_text(const Outcome& outcome);

// Machine-readable: one line of JSON for each step.
[[nodiscard]] std::string outcome_json(const Manifest& manifest, const Outcome& outcome, std::string_view backend);

}  // namespace tpplan
