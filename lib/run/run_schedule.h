// Runs a schedule on test data, compares every result with the unsharded tensor, and times every collective.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "manifest/manifest.h"
#include "ranks/backend.h"
#include "run/schedule.h"

namespace tpplan {

struct RunOptions {
  int iterations = 5, warmup = 1;
};

// What one rank saw of one collective.
struct CollectiveResult {
  uint32_t entry = 0;  // into the schedule
  Collective collective;
  uint64_t bytes = 0;  // as bandwidth_of counts them
  uint64_t ranks = 1;  // that took part
  double seconds = 0;  // on this rank, the mean of the timed repetitions
};

// One entry on one rank.
struct EntryResult {
  uint64_t elements = 0;  // this rank holds at the end
  uint64_t wrong = 0;     // that differ from the unsharded tensor
  std::string not_run;    // why it was not run, the same on every rank; empty: it was
  std::string fault;      // it ends in another layout than the manifest promises, the same on every rank; all is wrong
};

struct ScheduleResult {
  std::vector<EntryResult> entries;           // one for each of the schedule
  std::vector<CollectiveResult> collectives;  // in the order in which they ran
};

// All ranks of the mesh call it with the same schedule. False after a fault, which stands in `comm`.
[[nodiscard]] bool run_schedule(Comm& comm, const Mesh& mesh, std::span<const ScheduleEntry> schedule,
                                const RunOptions& options, ScheduleResult& result);

}  // namespace tpplan
