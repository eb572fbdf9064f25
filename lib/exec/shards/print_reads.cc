#include "exec/shards/print_reads.h"

#include <spdlog/fmt/fmt.h>

#include "base/text.h"

namespace tpplan {

std::string print_reads(const ReadPlan& plan, const WeightSource& source) {
  std::string out = fmt::format("{} bytes needed, {} planned\n", plan.needed_bytes, plan.planned_bytes);
  for (const ReadRange& file_range : plan.file_ranges) {
    out += fmt::format("{} at {}: {} of {} bytes", escape_for_terminal(source.weights.files[file_range.file].name),
                       file_range.offset, counted(file_range.lines, "line"), file_range.line_bytes);
    if (file_range.lines > 1) out += fmt::format(", {} apart", file_range.line_stride);
    for (size_t i = 0; i < file_range.outer_counts.size(); ++i)
      out += fmt::format(", {} times {} apart", file_range.outer_counts[i], file_range.outer_strides[i]);
    out += fmt::format(", {}\n", escape_for_terminal(source.tensors[file_range.tensor].name));
    for (const ReadSegment& segment : file_range.segments) {
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
