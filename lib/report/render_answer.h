// Renders the seconds of a step that runs as a run file specifies: terms, interval, measured steps.
#pragma once

#include <string>

#include "cost/step_time.h"
#include "report/render_step.h"
#include "text/json_writer.h"

namespace tpplan {

// Returns text that ends with a line break.
[[nodiscard]] std::string render_answer(const PrintedStepTime& answer, const Topology& topology,
                                        const TerminalStyle& look);

// Writes the fields `step` and `terms` of `costs` in schemas/diagnostics.schema.json. Numbers read back as they are.
void write_answer(JsonWriter& json, const PrintedStepTime& answer);

}  // namespace tpplan
