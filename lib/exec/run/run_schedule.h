// Runs a schedule on test data, compares every result with the unsharded tensor, and times every collective.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "exec/ranks/backend.h"
#include "exec/run/schedule.h"
#include "manifest/manifest.h"

namespace tpplan {

struct RunOptions {
  int iterations = 5, warmup = 1;
};

// The measurement of one collective on one rank.
struct CollectiveResult {
  uint32_t entry = 0;  // into the schedule
  Collective collective;
  uint64_t bytes = 0;  // as in bandwidth_of
  uint64_t ranks = 1;  // size of the group
  double seconds = 0;  // mean of the timed repetitions on this rank
};

// The result of one entry on one rank.
struct EntryResult {
  uint64_t elements = 0;  // elements that this rank holds at the end
  uint64_t wrong = 0;     // elements that differ from the unsharded tensor
  std::string not_run;    // why it was not run, the same on every rank; empty if it was
  std::string fault;  // set on every rank if the final layout differs from the manifest's; all elements are wrong then
};

struct ScheduleResult {
  std::vector<EntryResult> entries;           // by entry of the schedule
  std::vector<CollectiveResult> collectives;  // in execution order
};

// Runs the schedule. All ranks of the mesh call it with the same schedule. Returns false after an error, which is in
// comm.fault.
[[nodiscard]] bool run_schedule(Comm& comm, const Mesh& mesh, std::span<const ScheduleEntry> schedule,
                                const RunOptions& options, ScheduleResult& result);

}  // namespace tpplan
