// What `run` finds: the results of all ranks as one.
#pragma once

#include <string>
#include <vector>

#include "manifest/manifest.h"
#include "run/run_products.h"
#include "run/run_schedule.h"

namespace tpplan {

// What was run, and what came of it.
struct Outcome {
  std::vector<ScheduleEntry> schedule;
  ScheduleResult redistributions;
  std::vector<ModuleProduct> products;
  std::vector<ProductResult> results;
  std::string device;
};

// Gathers all ranks' numbers into this rank's outcome: sums of elements, the slowest rank's times.
void combine(Comm& comm, Outcome& outcome);

[[nodiscard]] bool is_wrong(const ProductResult& result);
[[nodiscard]] uint64_t count_wrong_steps(const Outcome& outcome);

}  // namespace tpplan
