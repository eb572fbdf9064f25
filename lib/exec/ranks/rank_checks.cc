#include "exec/ranks/rank_checks.h"

#include <sched.h>
#include <spdlog/fmt/fmt.h>

#include <thread>

#include "base/text.h"
#include "exec/device/device.h"
#include "exec/ranks/backends.h"
#include "exec/ranks/mpi_library.h"

namespace tpplan {
namespace {

// Reports whether the local backend works: two ranks all-reduce one number.
Check check_local() {
  Check check{.name = "backend local"};
  const DType dtype = dtype_of("float32");
  const LaunchOptions options{.world = 2, .deadline = 5};
  const JobResult end = run_local_ranks(options, cpu_device(), [&](Comm& comm) {
    float value = static_cast<float>(comm.rank + 1);
    const Group all{.ranks = {0, 1}, .self = static_cast<size_t>(comm.rank)};
    return comm.backend->all_reduce(comm, all, &value, 1, dtype, ReduceOp::Sum) && value == 3.0f ? 0 : 1;
  });
  check.found = end.fault         ? to_text(*end.fault)
                : end.status == 0 ? "all_reduce of two ranks is correct"
                                  : "all_reduce of two ranks is wrong";
  if (end.status != 0) {
    check.state = CheckState::Missing;
    check.remedy = "raise the limit on threads (ulimit -u)";
  }
  return check;
}

Check check_processors() {
  cpu_set_t set;
  const int usable = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
  const unsigned all = std::thread::hardware_concurrency();
  return {.name = "processors",
          .found = usable > 0 && static_cast<unsigned>(usable) != all ? fmt::format("{} of {}", usable, all)
                                                                      : fmt::format("{}", all)};
}

Check check_memory() {
  const uint64_t bytes = cpu_device().free_bytes();
  if (bytes == UINT64_MAX)
    return {.name = "memory",
            .state = CheckState::Missing,
            .found = "/proc/meminfo does not report free memory",
            .remedy = "mount /proc"};
  return {.name = "memory", .found = human_bytes(bytes) + " free"};
}

Check check_mpi() {
  std::string reason;
  const MpiLibrary* library = mpi_library(reason);
  if (library != nullptr)
    return {.name = "Open MPI", .found = fmt::format("{} ({})", library->version, escape_for_terminal(library->path))};
  return {.name = "Open MPI", .state = CheckState::Absent, .found = reason, .remedy = "install it for --backend mpi"};
}

Check check_launcher(const Environment& environment) {
  Check check{.name = "launcher"};
  try {
    const RankIdentity identity = find_rank(environment);
    check.state = identity.source.empty() ? CheckState::Absent : CheckState::Ok;
    check.found = identity.source.empty() ? "no launcher started this process"
                                          : fmt::format("{}: rank {} of {} ({})", identity.source, identity.rank,
                                                        identity.world, describe_rank_variables(environment));
    if (identity.source.empty()) check.remedy = "start ranks of --backend nccl or mpi with torchrun, mpirun or srun";
  } catch (const Fault& fault) {
    check.state = CheckState::Missing;
    check.found = to_text(fault);
    check.remedy = "environment: " + describe_rank_variables(environment);
  }
  return check;
}

}  // namespace

std::vector<Check> rank_checks(const Environment& environment) {
  return {check_local(), check_processors(), check_memory(), check_mpi(), check_launcher(environment)};
}

}  // namespace tpplan
