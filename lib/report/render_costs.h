// Renders the collectives of a training step as text for a terminal and as JSON. Identical layers are listed once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cost/measure_collectives.h"
#include "cost/step_time.h"
#include "report/render_step.h"
#include "sharding/compiled_call.h"
#include "text/json_writer.h"
#include "topology/run.h"

namespace tpplan {

// The input of the renderers. Without a forecast, `reason` explains why, `help` names a fix, and the fields about
// collectives are unused.
struct Costs {
  const CollectiveMeasure& measure;
  const Mesh& mesh;
  int64_t batch = 0, sequence = 0;  // of a step on one data rank; 0: unknown
  bool has_data_axes = false;       // the mesh has data axes, so `batch` is per data rank
  bool has_remat = false;
  AxisId units_axis = kNoAxis;         // FSDP's axis if the plan has `fsdp.units`
  std::span<const AxisId> unlisted{};  // ManifestStep::unlisted
  std::string_view reason{};
  std::string_view help{};
  bool is_compiled = false;                  // `compiled` has the collectives, and `reason` is unused
  std::span<const CompiledCall> compiled{};  // Forecast::compiled
  std::string_view uncovered{};              // Forecast::uncovered
  const TrainingMemory* memory = nullptr;    // nullptr: not computed
  const StepTime* time = nullptr;            // on `topology`; nullptr without a topology
  const Topology* topology = nullptr;
  const Run* run = nullptr;                 // of --run; nullptr without it
  const PrintedStepTime* answer = nullptr;  // of the run on a topology; nullptr without one
};

// Returns one phrase for each kind of collective that the forecast does not list. `units_axis` is Costs::units_axis.
[[nodiscard]] std::vector<std::string> unlisted_words(const Mesh& mesh, std::span<const AxisId> unlisted,
                                                      bool has_remat, AxisId units_axis);

// Returns the costs as text that ends with a line break. Names are escaped for a terminal.
[[nodiscard]] std::string render_costs(const Costs& costs, const TerminalStyle& look);

// Writes one JSON value: the field `costs` of schemas/diagnostics.schema.json.
void write_costs(JsonWriter& json, const Costs& costs);

}  // namespace tpplan
