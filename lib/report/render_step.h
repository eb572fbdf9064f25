// What a step takes of memory and of time, for a terminal and as JSON.
#pragma once

#include <optional>
#include <string>

#include "measure/measure_time.h"
#include "measure/measure_training.h"
#include "report/render_costs.h"
#include "syntax/json_writer.h"

namespace tpplan {

// Ends with a line break. Where activations are not known it says so.
[[nodiscard]] std::string render_memory(const TrainingMemory& memory, const CostsLook& look);
[[nodiscard]] std::string render_time(const StepTime& time, const Mesh& mesh, const Topology& topology,
                                      const CostsLook& look);

// One value each: the members `memory` and `time` of schemas/diagnostics.schema.json.
void write_memory(JsonWriter& json, const TrainingMemory& memory);
void write_time(JsonWriter& json, const StepTime& time, const Mesh& mesh, const Topology& topology);

}  // namespace tpplan
