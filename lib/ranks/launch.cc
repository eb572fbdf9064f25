#include "ranks/launch.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "base/text.h"
#include "ranks/backends.h"
#include "ranks/control.h"

namespace tpplan {
namespace {

struct BackendRow {
  std::string_view name;
  const Backend* (*find)(std::string& reason);
  bool (*connect)(Comm& comm, const RankIdentity& who, const LaunchOptions& options,
                  std::string& fault);  // nullptr: ranks are threads
  void (*finish)(Comm& comm);           // once all ranks have ended without a failure; nullptr: nothing
  std::string_view device;              // that `--device auto` means
  const char* launcher;                 // how its ranks are started
};

constexpr BackendRow kBackends[] = {
    {"local", local_backend, nullptr, nullptr, "cpu", ""},
    {"nccl", nccl_backend, connect_nccl, finish_nccl, "cuda", "torchrun --nproc-per-node {}"},
    {"mpi", mpi_backend, connect_mpi, finish_mpi, "cpu", "mpirun -np {}"},
};

// The device's table, or nullptr with the reason.
const Device* find_device(const BackendRow& row, const std::string& wanted, std::string& fault) {
  const auto rows = device_rows();
  const auto device_row = std::ranges::find(rows, wanted == "auto" ? row.device : wanted, &DeviceRow::name);
  std::string reason = "there is no such device";
  const Device* device = device_row == rows.end() ? nullptr : device_row->find(reason);
  if (device == nullptr)
    fault = fmt::format(
        "no GPU can be used: {}: see `tpplan-exec doctor`, or use --device cpu with --backend local or mpi", reason);
  return device;
}

// Whether the launcher started as many ranks as the mesh has.
bool is_world_right(const BackendRow& row, const RankIdentity& who, const LaunchOptions& options, std::string& fault) {
  if (row.connect == nullptr) {
    if (who.world == 1) return true;
    fault = fmt::format(
        "--backend local runs all {} ranks in one process, and {} has started {} processes: call it without the "
        "launcher, or use "
        "--backend mpi or nccl",
        options.world, who.source, who.world);
    return false;
  }
  if (who.world == options.world) return true;
  const std::string remedy = fmt::format(fmt::runtime(row.launcher), options.world);
  fault = fmt::format(
      "the manifest's mesh has {} and {}: start it with `{} ...`, or use --backend local",
      counted(static_cast<uint64_t>(options.world), "rank"),
      who.source.empty() ? "no launcher started this process" : fmt::format("{} has started {}", who.source, who.world),
      remedy);
  return false;
}

// No rank begins before all are connected: a failure in a step then never meets another rank at its start, where it
// would be a job that cannot be set up.
bool start_together(Comm& comm, std::string& fault) {
  std::vector<std::string> nothing;
  if (comm.backend->gather_texts(comm, "", nothing)) return true;
  fault = comm.fault;
  return false;
}

// This process's rank: its body, and the end that all ranks come to together. Returns the job's status.
int run_rank(Comm& comm, const RankBody& body, std::string& fault) {
  int status = 1;
  try {
    status = body(comm);
  } catch (const std::bad_alloc&) {
    fail(comm, "out of memory");
    status = 3;
  } catch (const std::exception& error) {
    fail(comm, escape_for_terminal(error.what()));
  }
  bool others_fine = true;
  if (comm.fault.empty()) others_fine = end_together(comm, status);
  fault = comm.fault;
  return fault.empty() && others_fine ? status : std::max(status, 1);
}

}  // namespace

int run_ranks(const LaunchOptions& options, const RankBody& body, std::string& fault) {
  fault.clear();
  const auto* row = std::ranges::find(kBackends, options.backend, &BackendRow::name);
  if (row == std::end(kBackends)) {
    fault = fmt::format("there is no backend \"{}\": local, nccl or mpi", escape_for_terminal(options.backend));
    return 2;
  }
  if (options.world < 1) {
    fault = "a job needs at least one rank";
    return 2;
  }
  RankIdentity who;
  if (!find_rank(std::getenv, who, fault) || !is_world_right(*row, who, options, fault)) return 2;
  std::string reason;
  const Backend* backend = row->find(reason);
  if (backend == nullptr) {
    fault = fmt::format("--backend {} cannot be used: {}", row->name, reason);
    return 2;
  }
  const Device* device = find_device(*row, options.device, fault);
  if (device == nullptr) return 2;
  if (row->connect == nullptr) return run_local_ranks(options, *device, body, fault);

  Comm comm{.rank = who.rank,
            .world = who.world,
            .local_rank = who.local_rank,
            .backend = backend,
            .device = device,
            .deadline = options.deadline};
  if (!row->connect(comm, who, options, fault)) return 2;
  if (!start_together(comm, fault)) return 1;
  const int status = run_rank(comm, body, fault);
  if (fault.empty() && row->finish != nullptr) row->finish(comm);
  return status;
}

}  // namespace tpplan
