#include "run/print_schedule.h"

#include <spdlog/fmt/fmt.h>

#include "base/text.h"
#include "run/list_products.h"

namespace tpplan {

std::string print_schedule(std::span<const ScheduleEntry> schedule, const Mesh& mesh) {
  std::string out;
  for (const ScheduleEntry& entry : schedule) {
    out += fmt::format("{} {} x {}: {}[{}] {}\n", to_text(entry.part), escape_for_terminal(entry.pattern), entry.count,
                       dtypes()[entry.dtype].name, fmt::join(entry.shape, ", "), layout_text(entry.from));
    std::vector<Placement> layout = entry.from;
    for (const Step& step : entry.steps) {
      const Collective& c = step.collective;
      layout[c.axis] = step.after;
      const std::string dims = c.kind == CollectiveKind::AllReduce  ? ""
                               : c.kind == CollectiveKind::AllToAll ? fmt::format(", dim {} to {}", c.from_dim, c.dim)
                                                                    : fmt::format(", dim {}", c.dim);
      out += fmt::format("  {} over {}{} -> {}\n", to_text(c.kind), escape_for_terminal(mesh.axes[c.axis].name), dims,
                         layout_text(layout));
    }
  }
  return out;
}

}  // namespace tpplan
