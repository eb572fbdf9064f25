// The collectives of a JAX or Keras program as text for a terminal and as JSON.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "report/render_step.h"
#include "sharding/compiled_call.h"
#include "text/json_writer.h"

namespace tpplan {

// Returns a table of the calls; equal calls of layers that differ in their numbers are one row. `uncovered`: what the
// forecast leaves out, may be empty.
[[nodiscard]] std::string render_compiled(std::span<const CompiledCall> calls, std::string_view uncovered,
                                          const TerminalStyle& look);

// Writes the fields `compiled`, `wire` and `uncovered` of the costs in schemas/diagnostics.schema.json.
void write_compiled(JsonWriter& json, std::span<const CompiledCall> calls, std::string_view uncovered);

}  // namespace tpplan
