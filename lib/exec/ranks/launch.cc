#include "exec/ranks/launch.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/text.h"
#include "exec/ranks/backends.h"
#include "exec/ranks/control.h"
#include "exec/ranks/end_process.h"

namespace tpplan {
namespace {

struct BackendRow {
  std::string_view name;
  const Backend* (*find)(std::string& reason);
  void (*connect)(Comm& comm, const RankIdentity& identity,
                  const LaunchOptions& options);  // nullptr: ranks are threads
  void (*finish)(Comm& comm);                     // called after all ranks have ended without a failure; may be nullptr
  std::string_view device;                        // default of `--device auto`
  const char* launcher;                           // command that starts its ranks
};

constexpr BackendRow kBackends[] = {
    {"local", local_backend, nullptr, nullptr, "cpu", ""},
    {"nccl", nccl_backend, connect_nccl, finish_nccl, "cuda", "torchrun --nproc-per-node {}"},
    {"mpi", mpi_backend, connect_mpi, finish_mpi, "cpu", "mpirun -np {}"},
};

const BackendRow& row_of(const std::string& name) {
  const auto* row = std::ranges::find(kBackends, name, &BackendRow::name);
  if (row != std::end(kBackends)) return *row;
  throw Fault{.code = Code::BackendUnavailable,
              .message = fmt::format("there is no backend \"{}\"", escape_for_terminal(name)),
              .help = "use local, nccl or mpi"};
}

const Backend& find_backend(const BackendRow& row) {
  std::string reason;
  const Backend* backend = row.find(reason);
  if (backend != nullptr) return *backend;
  throw Fault{.code = Code::BackendUnavailable,
              .message = fmt::format("cannot use --backend {}: {}", row.name, reason),
              .help = "run `tpplan-exec doctor`, or use --backend local"};
}

const Device& find_device(const BackendRow& row, const std::string& wanted) {
  const std::string_view name = wanted == "auto" ? row.device : std::string_view(wanted);
  const auto rows = device_rows();
  const auto found = std::ranges::find(rows, name, &DeviceRow::name);
  std::string reason = "no device has this name";
  const Device* device = found == rows.end() ? nullptr : found->find(reason);
  if (device != nullptr) return *device;
  throw Fault{.code = Code::DeviceUnavailable,
              .message = fmt::format("cannot use --device {}: {}", escape_for_terminal(name), reason),
              .help = "run `tpplan-exec doctor`, or use --device cpu with --backend local or mpi"};
}

// Throws unless the launcher has started as many ranks as the mesh has.
void check_world(const BackendRow& row, const RankIdentity& identity, const LaunchOptions& options) {
  const uint64_t ranks = static_cast<uint64_t>(options.world);
  if (row.connect == nullptr && identity.world != 1)
    throw Fault{.code = Code::RankCountMismatch,
                .message = fmt::format("--backend local runs all {} in one process, but {} started {} processes",
                                       counted(ranks, "rank"), identity.source, identity.world),
                .help = "run it without the launcher, or use --backend mpi or nccl"};
  if (row.connect == nullptr || identity.world == options.world) return;
  throw Fault{.code = Code::RankCountMismatch,
              .message = fmt::format("the manifest's mesh has {}, but {}", counted(ranks, "rank"),
                                     identity.source.empty()
                                         ? "no launcher started this process"
                                         : fmt::format("{} has a world size of {}", identity.source, identity.world)),
              .help = fmt::format("start it with `{} ...`, or use --backend local",
                                  fmt::format(fmt::runtime(row.launcher), options.world))};
}

// Waits until all ranks are connected, before any starts its body. Otherwise a fault in a step could reach a rank that
// is still connecting, which would report it as a failed setup.
bool start_together(Comm& comm) {
  std::string nothing;
  return comm.backend->fold_texts(
      comm, "", [](const auto&) { return std::string(); }, nothing);
}

// Executes the body on this process's rank and waits for the end of all ranks.
JobResult run_rank(Comm& comm, const RankBody& body) {
  JobResult end{.status = 1, .fault = {}};
  try {
    end.status = body(comm);
  } catch (...) {
    fail(comm, current_error());
  }
  const bool others_fine = comm.fault || finish_job(comm, end.status);
  end.fault = comm.fault;
  if (end.fault) end.status = std::max(end.status, exit_status(*end.fault));
  if (!others_fine) end.status = std::max(end.status, 1);
  return end;
}

JobResult run_process_rank(const BackendRow& row, const RankIdentity& identity, const LaunchOptions& options,
                           const Device& device, const Backend& backend, const RankBody& body) {
  Comm comm{.rank = identity.rank,
            .world = identity.world,
            .local_rank = identity.local_rank,
            .backend = &backend,
            .device = &device,
            .deadline = options.deadline,
            .start_deadline = std::max(options.deadline, options.start_deadline)};
  row.connect(comm, identity, options);
  if (!start_together(comm)) return {.status = 1, .fault = comm.fault, .has_begun = true};
  JobResult end = run_rank(comm, body);
  end.has_begun = true;
  if (!end.fault && row.finish != nullptr) row.finish(comm);
  return end;
}

}  // namespace

JobResult run_ranks(const LaunchOptions& options, const RankBody& body) {
  end_on_bad_alloc();
  try {
    const BackendRow& row = row_of(options.backend);
    if (options.world < 1) throw Fault{.code = Code::RankCountMismatch, .message = "a job needs at least one rank"};
    const RankIdentity identity = find_rank(std::getenv);
    check_world(row, identity, options);
    const Backend& backend = find_backend(row);
    const Device& device = find_device(row, options.device);
    if (row.connect == nullptr) return run_local_ranks(options, device, body);
    return run_process_rank(row, identity, options, device, backend, body);
  } catch (...) {  // any failure during setup
    JobResult end{.fault = current_error()};
    end.status = std::max(exit_status(*end.fault), exit_status(Failure::Input));
    return end;
  }
}

std::vector<std::string> backend_names() {
  std::vector<std::string> names;
  for (const BackendRow& row : kBackends) names.emplace_back(row.name);
  return names;
}

}  // namespace tpplan
