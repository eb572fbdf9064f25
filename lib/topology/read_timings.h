// Reads measured timings of collectives: the output of nccl-tests and of `tpplan-exec run --json`.
#pragma once

#include <string>
#include <vector>

#include "base/source_file.h"
#include "diagnostics/diagnostics.h"
#include "topology/fit_link.h"

namespace tpplan {

// Timings over groups of one axis, or of a number of ranks.
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

// Recognises the kind of a `--topology` file by its text.
enum class SpeedFileKind : uint8_t { Topology, NcclTests, Run };
[[nodiscard]] SpeedFileKind speed_file_kind(const SourceFile& file);

// Reads the output of nccl-tests, and skips lines that MPI and NCCL print in between. The kind of collective follows
// from the ratio of busbw and algbw, because older versions do not print it. Uses the out-of-place times. Reports
// TP9104.
[[nodiscard]] Timings read_nccl_tests(const SourceFile& file, Diagnostics& diagnostics);

// Reads the collectives of a run by axis, without local slices, which communicate nothing. Reports TP9104 and JSON
// errors.
[[nodiscard]] Timings read_run_timings(const SourceFile& file, Diagnostics& diagnostics);

}  // namespace tpplan
