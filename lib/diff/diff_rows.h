// Rows with the numbers of two manifests, for all human-readable formats.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "diff/manifest_diff.h"

namespace tpplan {

// A number of both manifests. The texts differ if the numbers differ.
struct NumberRow {
  std::string_view name;
  std::string before, after;
  std::string change;  // "+1.5 %"; empty if it is too small to print, or `before` is 0
};

// Returns the byte counts that differ. Prints exact bytes if the rounded texts would be equal.
[[nodiscard]] std::vector<NumberRow> byte_rows(const RankBytes& before, const RankBytes& after);

// Returns the costs of a step that are known for both manifests, including equal ones, and the tokens if they differ.
// Empty if the manifests are equal.
[[nodiscard]] std::vector<NumberRow> step_rows(const ManifestDiff& diff);

// Returns a heading such as "step, rank 0, recipe adamw".
[[nodiscard]] std::string step_title(const StepDiff& step);

// Returns a sentence if the steps train different numbers of tokens; otherwise empty.
[[nodiscard]] std::string tokens_note(const StepDiff& step);

// Returns the times of a step that differ; empty unless both times are known.
[[nodiscard]] std::vector<NumberRow> time_rows(const TimeDiff& time);

// Returns why the time of a step is unknown for one or both manifests; empty if both are known.
[[nodiscard]] std::string_view missing_time_text(const TimeDiff& time);

}  // namespace tpplan
