#include "exec/run/print_schedule.h"

#include <spdlog/fmt/fmt.h>

#include "base/text.h"
#include "exec/run/list_matmuls.h"
#include "sharding/tensor_size.h"

namespace tpplan {

std::string print_schedule(std::span<const ScheduleEntry> schedule, const Mesh& mesh) {
  std::string out;
  for (const ScheduleEntry& entry : schedule) {
    out += fmt::format("{} {} x {}: {}{} {}\n", to_text(entry.part), escape_for_terminal(entry.pattern), entry.count,
                       dtypes()[entry.dtype].name, shape_text(entry.shape), layout_text(entry.from));
    std::vector<Placement> layout = entry.from;
    for (const Step& step : entry.steps) {
      layout[step.collective.axis] = step.after;
      out += fmt::format("  {} -> {}\n", escape_for_terminal(to_text(step.collective, mesh)), layout_text(layout));
    }
  }
  return out;
}

}  // namespace tpplan
