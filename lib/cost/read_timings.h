// Timings of collectives that a program has measured, in place of figures: what nccl-tests prints, and what
// `tpplan-exec run --json` does.
#pragma once

#include <string>
#include <vector>

#include "base/source_file.h"
#include "diagnostics/diagnostics.h"
#include "measure/fit_link.h"

namespace tpplan {

// Over groups of one axis, or of so many ranks.
struct AxisTimings {
  std::string axis;  // empty: the file knows none
  int64_t ranks = 0;
  std::vector<TimedCall> calls;
  Span span;  // where the file says how many ranks, or first names the axis
};

struct Timings {
  std::string device;  // as the file calls it
  Span device_span;
  std::vector<AxisTimings> axes;
};

// What a file that is given with `--topology` holds, by its text.
enum class SpeedFileKind : uint8_t { Topology, NcclTests, Run };
[[nodiscard]] SpeedFileKind kind_of(const SourceFile& file);

// Lines of the table are found behind what MPI and NCCL print between them. Which collective it times follows from what
// nccl-tests makes of algbw (its busbw), since older versions do not name it; columns are known by their heads. Of
// times it takes those out of place. Reports TP9104.
[[nodiscard]] Timings read_nccl_tests(const SourceFile& file, Diagnostics& diagnostics);

// Its collectives, by axis; local slices move nothing and count for nothing. Reports TP9104 and what is wrong with its
// JSON.
[[nodiscard]] Timings read_run_timings(const SourceFile& file, Diagnostics& diagnostics);

}  // namespace tpplan
