#include "ranks/launch.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/text.h"
#include "ranks/backends.h"
#include "ranks/control.h"
#include "ranks/end_process.h"

namespace tpplan {
namespace {

struct BackendRow {
  std::string_view name;
  const Backend* (*find)(std::string& reason);
  void (*connect)(Comm& comm, const RankIdentity& who, const LaunchOptions& options);  // nullptr: ranks are threads
  void (*finish)(Comm& comm);  // once all ranks have ended without a failure; nullptr: nothing
  std::string_view device;     // that `--device auto` means
  const char* launcher;        // how its ranks are started
};

constexpr BackendRow kBackends[] = {
    {"local", local_backend, nullptr, nullptr, "cpu", ""},
    {"nccl", nccl_backend, connect_nccl, finish_nccl, "cuda", "torchrun --nproc-per-node {}"},
    {"mpi", mpi_backend, connect_mpi, finish_mpi, "cpu", "mpirun -np {}"},
};

const BackendRow& row_of(const std::string& name) {
  const auto* row = std::ranges::find(kBackends, name, &BackendRow::name);
  if (row != std::end(kBackends)) return *row;
  throw Fault{.code = Code::TP8001,
              .message = fmt::format("there is no backend \"{}\"", escape_for_terminal(name)),
              .help = "use local, nccl or mpi"};
}

const Backend& find_backend(const BackendRow& row) {
  std::string reason;
  const Backend* backend = row.find(reason);
  if (backend != nullptr) return *backend;
  throw Fault{.code = Code::TP8001,
              .message = fmt::format("--backend {} cannot be used: {}", row.name, reason),
              .help = "see `tpplan-exec doctor`, or use --backend local"};
}

const Device& find_device(const BackendRow& row, const std::string& wanted) {
  const std::string_view name = wanted == "auto" ? row.device : std::string_view(wanted);
  const auto rows = device_rows();
  const auto found = std::ranges::find(rows, name, &DeviceRow::name);
  std::string reason = "there is no such device";
  const Device* device = found == rows.end() ? nullptr : found->find(reason);
  if (device != nullptr) return *device;
  throw Fault{.code = Code::TP8002,
              .message = fmt::format("--device {} cannot be used: {}", escape_for_terminal(name), reason),
              .help = "see `tpplan-exec doctor`, or use --device cpu with --backend local or mpi"};
}

// The launcher has started as many ranks as the mesh has.
void check_world(const BackendRow& row, const RankIdentity& who, const LaunchOptions& options) {
  const uint64_t ranks = static_cast<uint64_t>(options.world);
  if (row.connect == nullptr && who.world != 1)
    throw Fault{.code = Code::TP8003,
                .message = fmt::format("--backend local runs all {} in one process, and {} has started {} processes",
                                       counted(ranks, "rank"), who.source, who.world),
                .help = "call it without the launcher, or use --backend mpi or nccl"};
  if (row.connect == nullptr || who.world == options.world) return;
  throw Fault{.code = Code::TP8003,
              .message = fmt::format("the manifest's mesh has {} and {}", counted(ranks, "rank"),
                                     who.source.empty() ? "no launcher started this process"
                                                        : fmt::format("{} has started {}", who.source, who.world)),
              .help = fmt::format("start it with `{} ...`, or use --backend local",
                                  fmt::format(fmt::runtime(row.launcher), options.world))};
}

// No rank begins before all are connected: a failure in a step then never meets another rank at its start, where it
// would be a job that cannot be set up.
bool start_together(Comm& comm) {
  std::string nothing;
  return comm.backend->fold_texts(
      comm, "", [](const auto&) { return std::string(); }, nothing);
}

// This process's rank: its body, and the end that all ranks come to together.
JobEnd run_rank(Comm& comm, const RankBody& body) {
  JobEnd end{.status = 1, .fault = {}};
  try {
    end.status = body(comm);
  } catch (...) {
    fail(comm, current_fault());
  }
  const bool others_fine = comm.fault || end_together(comm, end.status);
  end.fault = comm.fault;
  if (end.fault) end.status = std::max(end.status, exit_status(*end.fault));
  if (!others_fine) end.status = std::max(end.status, 1);
  return end;
}

JobEnd run_process_rank(const BackendRow& row, const RankIdentity& who, const LaunchOptions& options,
                        const Device& device, const Backend& backend, const RankBody& body) {
  Comm comm{.rank = who.rank,
            .world = who.world,
            .local_rank = who.local_rank,
            .backend = &backend,
            .device = &device,
            .deadline = options.deadline,
            .start_deadline = std::max(options.deadline, options.start_deadline)};
  row.connect(comm, who, options);
  if (!start_together(comm)) return {.status = 1, .fault = comm.fault, .has_begun = true};
  JobEnd end = run_rank(comm, body);
  end.has_begun = true;
  if (!end.fault && row.finish != nullptr) row.finish(comm);
  return end;
}

}  // namespace

JobEnd run_ranks(const LaunchOptions& options, const RankBody& body) {
  end_without_memory();
  try {
    const BackendRow& row = row_of(options.backend);
    if (options.world < 1) throw Fault{.code = Code::TP8003, .message = "a job needs at least one rank"};
    const RankIdentity who = find_rank(std::getenv);
    check_world(row, who, options);
    const Backend& backend = find_backend(row);
    const Device& device = find_device(row, options.device);
    if (row.connect == nullptr) return run_local_ranks(options, device, body);
    return run_process_rank(row, who, options, device, backend, body);
  } catch (...) {  // the job cannot be set up, whatever it is for want of
    JobEnd end{.fault = current_fault()};
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
