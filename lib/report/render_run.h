// Renders how a step runs, with the defaults that were taken, for a terminal and as JSON.
#pragma once

#include <string>

#include "report/render_step.h"
#include "text/json_writer.h"
#include "topology/run.h"

namespace tpplan {

// Returns lines of `key: value`, first those that are given, then the defaults.
[[nodiscard]] std::string render_run(const Run& run, const TerminalStyle& look);

// Writes the field `run` of schemas/diagnostics.schema.json: every key of a run file with its value, and `given`.
void write_run(JsonWriter& json, const Run& run);

}  // namespace tpplan
