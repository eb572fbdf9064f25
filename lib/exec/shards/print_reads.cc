#include "exec/shards/print_reads.h"

#include <spdlog/fmt/fmt.h>

#include "base/text.h"

namespace tpplan {

std::string print_reads(const ReadPlan& plan, const WeightSource& source) {
  std::string out = fmt::format("{} bytes needed, {} planned\n", plan.needed_bytes, plan.planned_bytes);
  for (const ReadCell& cell : plan.cells) {
    out += fmt::format("{} at {}: {} of {} bytes", escape_for_terminal(source.weights.files[cell.file].name),
                       cell.offset, counted(cell.lines, "line"), cell.line_bytes);
    if (cell.lines > 1) out += fmt::format(", {} apart", cell.line_stride);
    for (size_t i = 0; i < cell.outer_counts.size(); ++i)
      out += fmt::format(", {} times {} apart", cell.outer_counts[i], cell.outer_strides[i]);
    out += fmt::format(", {}\n", escape_for_terminal(source.tensors[cell.tensor].name));
    for (const ReadSegment& segment : cell.segments) {
      out += fmt::format("  [{}, {})", segment.begin, segment.begin + segment.bytes);
      if (segment.targets.empty()) out += " to no rank";
      for (const ReadTarget& target : segment.targets)
        out += fmt::format("{} rank {} at {}", &target == segment.targets.data() ? " to" : ",", target.rank,
                           target.offset);
      out += '\n';
    }
  }
  return out;
}

}  // namespace tpplan
