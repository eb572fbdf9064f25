#include "exec/run/run_schedule.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/text.h"
#include "exec/run/exact_tensor.h"
#include "exec/run/memory_fit.h"

namespace tpplan {
namespace {

bool needs_arithmetic(const ScheduleEntry& entry) { return !partial_axes(entry.from).empty(); }

// Runs the collectives of an entry in order, each with the requested repetitions.
bool run_entry(Comm& comm, const Mesh& mesh, const ScheduleEntry& entry, uint32_t id, const RunOptions& options,
               ScheduleResult& result) {
  const ExactTensor data{.salt = id,
                         .shape = entry.shape,
                         .dtype = entry.dtype,
                         .partial = partial_axes(entry.from),
                         .op = partial_op(entry.from)};
  LocalTensor tensor{.name = fmt::format("{} of {}", to_text(entry.part), entry.path),
                     .shape = entry.shape,
                     .segments = entry.segments,
                     .dtype = entry.dtype,
                     .placements = entry.from};
  if (!make_exact_tensor(comm, mesh, data, tensor)) return false;
  for (size_t i = 0; i < entry.steps.size(); ++i) {
    const Collective& collective = entry.steps[i].collective;
    StepMeasure measure;
    if (!redistribute_step(comm, mesh, collective, tensor, entry.steps[i].after, &measure,
                           {.warmup = options.warmup, .iterations = options.iterations}))
      return false;
    result.collectives.push_back({.entry = id,
                                  .collective = collective,
                                  .bytes = measure.bytes,
                                  .ranks = measure.group,
                                  .seconds = measure.seconds});
  }
  EntryResult& seen = result.entries[id];
  seen.elements = tensor.bytes * 8 / dtypes()[tensor.dtype].bits;
  seen.wrong = count_wrong_elements(comm, mesh, data, tensor);
  if (tensor.placements == entry.to) return true;
  seen.fault = fmt::format("the result has the layout {}, but the manifest declares {}", to_text(tensor.placements),
                           to_text(entry.to));
  seen.wrong = std::max<uint64_t>(seen.elements, 1);
  return true;
}

// Estimates the peak bytes on a rank and the host: the largest regions before and after a step, and the expected
// values.
uint64_t bytes_needed(const Comm& comm, const Mesh& mesh, const ScheduleEntry& entry) {
  LocalTensor tensor{
      .name = "", .shape = entry.shape, .segments = entry.segments, .dtype = entry.dtype, .placements = entry.from};
  uint64_t most = 0;
  for (size_t i = 0; i <= entry.steps.size(); ++i) {
    Region region;
    if (!region_of(tensor, mesh, comm.rank, region)) return 0;  // the step reports why
    most = std::max(most, byte_size(entry.dtype, elements_in(region)));
    if (i < entry.steps.size()) tensor.placements[entry.steps[i].collective.axis] = entry.steps[i].after;
  }
  return most > kTooManyBytes / 4 ? kTooManyBytes : most * 4;
}

// Returns why an entry cannot be run; empty if it can. The same on every rank.
std::string why_not(Comm& comm, const Mesh& mesh, const ScheduleEntry& entry) {
  if (dtypes()[entry.dtype].bits < 8 || (!supports_sums(entry.dtype) && needs_arithmetic(entry)))
    return fmt::format("{} has no arithmetic", dtypes()[entry.dtype].name);
  const uint64_t bytes = bytes_needed(comm, mesh, entry);
  return fits_on_all_ranks(comm, bytes) ? ""
                                        : fmt::format("a rank needs {}, more than the free memory", human_bytes(bytes));
}

}  // namespace

bool run_schedule(Comm& comm, const Mesh& mesh, std::span<const ScheduleEntry> schedule, const RunOptions& options,
                  ScheduleResult& result) {
  result.entries.assign(schedule.size(), {});
  for (uint32_t id = 0; id < schedule.size(); ++id) {
    const ScheduleEntry& entry = schedule[id];
    begin_step(comm, fmt::format("{} of {}", to_text(entry.part), entry.path));
    result.entries[id].not_run = why_not(comm, mesh, entry);
    if (result.entries[id].not_run.empty() && !run_entry(comm, mesh, entry, id, options, result)) return false;
  }
  return true;
}

}  // namespace tpplan
