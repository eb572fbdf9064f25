// The collectives of a training step, layers that are alike once: as text for a terminal, and as JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "measure/measure_collectives.h"
#include "syntax/json_writer.h"

namespace tpplan {

struct TrainingMemory;
struct StepTime;
struct Topology;

// What is shown. Where there is no forecast, `reason` says why, `help` how to get one, and the rest counts for nothing.
struct Costs {
  const CollectiveMeasure& measure;
  const Mesh& mesh;
  int64_t batch = 0, sequence = 0;  // of the step of one data rank; 0: nobody says
  bool has_data_axes = false;       // so that there are several of them
  bool has_remat = false;
  AxisId units_axis = kNoAxis;         // FSDP's, where the plan names `fsdp.units`
  std::span<const AxisId> unlisted{};  // as in ManifestStep
  std::string_view reason{};
  std::string_view help{};
  const TrainingMemory* memory = nullptr;  // nullptr: nobody counted it
  const StepTime* time = nullptr;          // of `topology`; nullptr: nobody gave one
  const Topology* topology = nullptr;
};

struct CostsLook {
  bool color = false;
  size_t width = 80;  // columns; a row that is wider stands on two lines
};

// What is not among the calls, a sentence each: empty where nothing is missing. `units_axis` as in Costs.
[[nodiscard]] std::vector<std::string> unlisted_words(const Mesh& mesh, std::span<const AxisId> unlisted,
                                                      bool has_remat, AxisId units_axis);

// Ends with a line break. Names are escaped for a terminal.
[[nodiscard]] std::string render_costs(const Costs& costs, const CostsLook& look);

// One value: the member `costs` of schemas/diagnostics.schema.json.
void write_costs(JsonWriter& json, const Costs& costs);

}  // namespace tpplan
