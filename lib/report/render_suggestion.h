// Renders the meshes that were tried for a plan, as a table for a terminal and as JSON.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "diagnostics/diagnostics.h"
#include "suggest/suggest_meshes.h"
#include "text/json_writer.h"

namespace tpplan {

inline constexpr std::string_view kSuggestionFormat = "tpplan.suggestion/1";

struct Suggestion {
  std::string_view model;
  std::string_view recipe;  // training recipe of the memory forecast
  bool infer = false;       // memory of inference, not of training
  AxisId axis = kNoAxis;    // the axis whose sizes were tried, in addition to FSDP's axis
  std::span<const MeshTrial> trials;
  const Run* run = nullptr;     // of the priced steps; nullptr: the exported step was priced
  bool is_timed = false;        // the trials have seconds
  const Diagnostics& findings;  // diagnostics with the mesh of the plan
};

// Returns text that ends with a line break. The reasons why sizes fail are wrapped to `width` columns. Names are
// escaped for a terminal.
[[nodiscard]] std::string render_suggestion(const Suggestion& suggestion, size_t width);

// Returns a JSON document that conforms to schemas/suggestion.schema.json.
[[nodiscard]] std::string suggestion_json(const Suggestion& suggestion, std::string_view tool);

}  // namespace tpplan
