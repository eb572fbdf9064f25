// The collectives of a training step, layers that are alike once: as text for a terminal, and as JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "measure/measure_collectives.h"
#include "syntax/json_writer.h"

namespace tpplan {

// What is shown. Where there is no forecast, `reason` says why, `help` how to get one, and the rest counts for nothing.
struct Costs {
  const CollectiveMeasure& measure;
  const Mesh& mesh;
  int64_t batch = 0, sequence = 0;  // of the step; 0: nobody says
  std::string_view reason{};
  std::string_view help{};
};

struct CostsLook {
  bool color = false;
  size_t width = 80;  // columns; a row that is wider stands on two lines
};

// Ends with a line break. Names are escaped for a terminal.
[[nodiscard]] std::string render_costs(const Costs& costs, const CostsLook& look);

// One value: the member `costs` of schemas/diagnostics.schema.json.
void write_costs(JsonWriter& json, const Costs& costs);

}  // namespace tpplan
