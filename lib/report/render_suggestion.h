// The meshes that were tried for a plan, as a table for a terminal and as JSON.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "diagnostics/diagnostics.h"
#include "remedy/suggest_meshes.h"
#include "syntax/json_writer.h"

namespace tpplan {

inline constexpr std::string_view kSuggestionFormat = "tpplan.suggestion/1";

struct Suggestion {
  std::string_view model;
  std::string_view recipe;  // by which memory is counted
  AxisId axis = kNoAxis;    // whose sizes were tried, beside FSDP's
  std::span<const MeshTrial> trials;
  const Diagnostics& findings;  // with the plan's own mesh
};

// Ends with a line break; lines that say why a size does not work are wrapped to `width` columns. Names are escaped for
// a terminal.
[[nodiscard]] std::string render_suggestion(const Suggestion& suggestion, size_t width);

// One document of schemas/suggestion.schema.json.
[[nodiscard]] std::string suggestion_json(const Suggestion& suggestion, std::string_view tool);

}  // namespace tpplan
