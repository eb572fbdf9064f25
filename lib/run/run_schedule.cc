#include "run/run_schedule.h"

#include <spdlog/fmt/fmt.h>

#include "run/exact_tensor.h"

namespace tpplan {
namespace {

bool needs_arithmetic(const ScheduleEntry& entry) { return !open_axes(entry.from).empty(); }

// The collectives of an entry, one after the other, each from where the one before it ended and as often as is asked.
bool run_entry(Comm& comm, const Mesh& mesh, const ScheduleEntry& entry, uint32_t id, const RunOptions& options, ScheduleResult& result) {
  const ExactTensor data{.salt = id, .shape = entry.shape, .dtype = entry.dtype, .partial = open_axes(entry.from), .op = open_op(entry.from)};
  LocalTensor tensor{.name = fmt::format("{} of {}", to_text(entry.part), entry.path), .shape = entry.shape, .dtype = entry.dtype, .placements = entry.from};
  if (!make_exact(comm, mesh, data, tensor)) return false;
  for (size_t i = 0; i < entry.collectives.size(); ++i) {
    LocalTensor next;
    CollectiveResult seen{.entry = id, .collective = entry.collectives[i]};
    double seconds = 0;
    for (int repetition = 0; repetition < options.warmup + options.iterations; ++repetition) {
      next = tensor;
      StepMeasure measure;
      if (!redistribute_step(comm, mesh, entry.collectives[i], next, entry.after[i], &measure)) return false;
      if (repetition >= options.warmup) seconds += measure.total_seconds;
      seen.bytes = entry.collectives[i].kind == CollectiveKind::LocalSlice ? next.bytes : measure.exchange_bytes;
      seen.ranks = measure.group;
    }
    seen.seconds = seconds / options.iterations;
    result.collectives.push_back(seen);
    tensor = std::move(next);
  }
  result.entries[id] = {.elements = tensor.bytes * 8 / dtypes()[tensor.dtype].bits, .wrong = count_wrong(comm, mesh, data, tensor)};
  return true;
}

}  // namespace

bool run_schedule(Comm& comm, const Mesh& mesh, const Schedule& schedule, const RunOptions& options, ScheduleResult& result) {
  result.entries.assign(schedule.entries.size(), {});
  for (uint32_t id = 0; id < schedule.entries.size(); ++id) {
    const ScheduleEntry& entry = schedule.entries[id];
    const bool runs = dtypes()[entry.dtype].bits >= 8 && (has_arithmetic(entry.dtype) || !needs_arithmetic(entry));
    if (!runs) {
      result.entries[id].summed = false;
    } else if (!run_entry(comm, mesh, entry, id, options, result)) {
      return false;
    }
  }
  return true;
}

}  // namespace tpplan
