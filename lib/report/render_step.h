// Renders the memory and the time of a step for a terminal and as JSON.
#pragma once

#include <optional>
#include <string>

#include "cost/measure_time.h"
#include "cost/measure_training.h"
#include "text/json_writer.h"

namespace tpplan {

struct TerminalStyle {
  bool color = false;
  size_t width = 80;  // columns; a wider row takes two lines
};

// Returns whether a step fits into the GPU, and by how much, without a line break. @pre the capacity is known
[[nodiscard]] std::string fits_text(const TrainingMemory& memory);

// Returns the lines of the terms and of their sum.
[[nodiscard]] std::string memory_lines(const TrainingMemory& memory, const TerminalStyle& look);

// Return text that ends with a line break. It notes if the activations are unknown.
[[nodiscard]] std::string render_memory(const TrainingMemory& memory, const TerminalStyle& look);
[[nodiscard]] std::string render_time(const StepTime& time, const Mesh& mesh, const Topology& topology,
                                      const TerminalStyle& look);

// Each writes one JSON value: the fields `memory` and `time` of schemas/diagnostics.schema.json.
void write_memory(JsonWriter& json, const TrainingMemory& memory);
void write_time(JsonWriter& json, const StepTime& time, const Mesh& mesh, const Topology& topology);

}  // namespace tpplan
