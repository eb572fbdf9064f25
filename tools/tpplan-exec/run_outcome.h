// The results of `run`, combined over all ranks.
#pragma once

#include <string>
#include <vector>

#include "exec/run/run_matmuls.h"
#include "exec/run/run_schedule.h"
#include "manifest/manifest.h"

namespace tpplan {

// The schedule and its results.
struct Outcome {
  std::vector<ScheduleEntry> schedule;
  ScheduleResult redistributions;
  std::vector<ModuleMatmul> matmuls;
  std::vector<MatmulResult> results;
  std::string device;
};

// Combines the results of all ranks into this rank's outcome: sums of elements, maxima of times.
void combine(Comm& comm, Outcome& outcome);

[[nodiscard]] bool is_wrong(const MatmulResult& result);
[[nodiscard]] uint64_t count_wrong_steps(const Outcome& outcome);

}  // namespace tpplan
