#include "job.h"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>
#include <tuple>

#include "base/file_limit.h"
#include "base/long_calls.h"
#include "base/text.h"
#include "base/write_file.h"
#include "exec/ranks/node_ranks.h"
#include "exec/ranks/rank_source.h"
#include "exec/ranks/sockets.h"
#include "exec/ranks/stuck_calls.h"
#include "exec/shards/place_tensors.h"
#include "exec/shards/require_memory.h"
#include "exec/shards/shard_folder.h"
#include "exec/shards/weights_identity.h"
#include "exec/shards/work_together.h"
#include "manifest/shardings_digest.h"
#include "terminal.h"

namespace tpplan {
namespace {

// True if this rank reports the fault, so that a job prints each fault only once. This is the rank at fault, or rank 0
// if that rank is lost. If rank 0 is lost, rank 1 and the first rank of every node report it, because rank 0's whole
// node may be lost. Before the ranks have connected, rank 0 always reports why it ends the job: the rank at fault may
// be unaware of it, or a stranger.
bool is_reporter(const Fault& fault, bool has_begun) {
  const bool is_away = kind_of(fault.code).is_lost_rank;
  try {
    const RankIdentity identity = find_rank(std::getenv);
    if (identity.world == 1 || identity.rank == std::max(fault.rank, 0) || (identity.rank == 0 && !has_begun))
      return true;
    if (!is_away) return false;
    return fault.rank == 0 ? identity.rank == 1 || identity.local_rank <= 0 : identity.rank == 0;
  } catch (const Fault&) {  // malformed launcher variables
    return true;
  }
}

std::string host_name() {
  const std::string identity = host_identity();
  return escape_for_terminal(identity.substr(0, identity.find(' ')));
}

constexpr const char* kFailedStart = "failed start";
// Time for another rank to report the fault: the launcher ends all ranks when one has exited.
constexpr auto kReportTime = std::chrono::milliseconds(500);
constexpr auto kOthersFail = std::chrono::milliseconds(500), kOthersReport = std::chrono::milliseconds(1500);

// True if this rank reports an error that occurred before the ranks connected. All ranks usually have the same error,
// so only the first failed rank of each node reports it. The others wait for that, because the launcher ends all ranks
// when one has exited.
bool reports_for_node() {
  RankIdentity identity;
  try {
    identity = find_rank(std::getenv);
  } catch (const Fault&) {  // malformed launcher variables
    return true;
  }
  if (identity.world == 1) return true;
  std::ignore = name_thread(kFailedStart);
  std::this_thread::sleep_for(kOthersFail);
  const std::vector<NodeRank> here = find_node_ranks(kFailedStart);
  const auto first = std::ranges::find(here, true, &NodeRank::is_inside);
  if (first == here.end() || first->rank >= identity.rank) return true;
  std::this_thread::sleep_for(kOthersReport);
  return false;
}

}  // namespace

bool reports_for_job() {
  try {
    return find_rank(std::getenv).rank == 0;
  } catch (const Fault&) {  // malformed launcher variables, which run_ranks rejects
    return true;
  }
}

int open_source(const std::string& path, const Manifest& manifest, const JobArguments& job, WeightSource& source,
                const WeightSource* reported) {
  const bool good = open_weights(path, manifest, source);
  const auto is_reported = [&](const Fault& finding) {
    return reported != nullptr &&
           std::ranges::find(reported->findings, finding.message, &Fault::message) != reported->findings.end();
  };
  int status = std::max(good ? 0 : 1, report(source.weights.diagnostics, sources_of(source_files_of(source.weights))));
  for (const Fault& finding : source.findings) {
    const bool is_warning = exit_status(finding) == 0;
    if (is_warning && (!good || job.quiet || !reports_for_job() || is_reported(finding))) continue;
    status = std::max(status, report(finding));
  }
  return status;
}

std::vector<std::string> files_of(const WeightSource& source) {
  std::vector<std::string> files;
  for (const InputFile& file : source.weights.files) files.push_back(file.name);
  if (!source.weights.index.name.empty()) files.push_back(source.weights.index.name);
  if (source.is_folder_of_shards && !source.weights.files.empty()) {
    files.push_back((std::filesystem::path(source.weights.files[0].name).parent_path() / kFolderNote).string());
  }
  return files;
}

void check_output(std::string_view flag, const std::string& output, const std::vector<std::string>& inputs) {
  if (output == "-")
    throw Fault{
        .code = Code::OutputUnwritable,
        .message = fmt::format("{}: standard output is not supported, because ranks write at file offsets", flag),
        .help = "pass a file name",
        .place = "<stdout>"};
  int error = 0;
  if (!output.empty() && is_same_file(output, inputs, error))
    throw Fault{.code = Code::OutputIsInput,
                .message = fmt::format("{}: the output is one of the inputs", flag),
                .help = "pass another file name",
                .place = output};
  if (error != 0)
    throw Fault{
        .code = Code::OutputUnwritable,
        .message = fmt::format("{}: cannot check whether it is one of the inputs: {}", flag, std::strerror(error)),
        .place = output};
}

int open_saved(const std::string& folder, const ManifestInput& input, const JobArguments& job, WeightSource& source,
               const WeightSource* reported, std::string_view help) {
  const std::string saved_as = read_note(folder), wanted = shardings_sha256(input.manifest);
  if (!saved_as.empty() && saved_as != wanted)
    throw Fault{
        .code = Code::OtherManifest,
        .message = fmt::format("the folder has other shards than {}: the SHA-256 of its shardings is {}..., that "
                               "of the manifest is {}...",
                               escape_for_terminal(input.file.name), saved_as.substr(0, 12), wanted.substr(0, 12)),
        .help = std::string(help),
        .place = folder};
  return open_source(folder, input.manifest, job, source, reported);
}

bool find_local_shards(const std::string& path, const ManifestInput& input, const JobArguments& job,
                       SavedFolder& known) {
  if (job.backend == "local") return false;  // this process has all ranks and needs all headers
  check_packing(input.manifest);
  try {
    if (!find_saved_folder(path, input.manifest, shardings_sha256(input.manifest), known)) return false;
  } catch (const Fault&) {  // reported when all headers are read
    return false;
  }
  size_t lacking = 0;
  for (size_t i = 0; i < known.missing.size(); ++i)
    lacking += known.missing[i] && !is_never_saved(path_of(input.manifest, tensor_of(input.manifest, i)));
  if (lacking != 0 && !job.quiet && reports_for_job()) report(missing_buffers(path, lacking));
  return true;
}

void open_on_all_ranks(Comm& comm, const SavedFolder& known, WeightSource& source) {
  work_together(comm, "load: opening shards", [&] { source = open_local_shards(known, comm.node); });
}

std::span<ShardStore> work_of(const Comm& comm, SharedShards& shared) {
  return comm.rank == comm.process.front() ? std::span(shared) : std::span<ShardStore>();
}

const ShardStore& shards_of(const Comm& comm, const SharedShards& shared) {
  return *std::ranges::find(shared, comm.rank, &ShardStore::rank);
}

bool prints_human(const JobArguments& job) { return !job.quiet && !job.json && job.format == kHumanFormat; }

ProgressKind progress_of(const Comm& comm, const JobArguments& job) {
  if (comm.rank != 0 || job.quiet) return ProgressKind::None;
  if (job.format == "jsonl") return ProgressKind::Lines;
  return prints_human(job) ? ProgressKind::Bar : ProgressKind::None;
}

LoadResult load_together(Comm& comm, const Manifest& manifest, const WeightSource& source, const JobArguments& job,
                         SharedShards& shared) {
  require_memory(comm, manifest);
  const auto allocate = [&] {
    for (const int rank : comm.process) shared.push_back(allocate_shards(manifest, rank, *comm.device));
  };
  work_together(comm, "load: allocating", comm.rank == comm.process.front() ? allocate : std::function<void()>());
  return load_shards(
      comm, source, work_of(comm, shared),
      {.staging = job.staging, .threads = job.threads, .progress = progress_of(comm, job), .broadcast = job.broadcast});
}

// Returns the text that all ranks must agree on. Its lines are compared separately: a mismatch is reported with the
// first differing line.
std::string agreement_of(std::string_view command, const WeightSource& weights) {
  return fmt::format("{}\n{}", command, weights_identity(weights));
}

int run_job(const ManifestInput& input, const JobArguments& job, std::string_view command, const RankBody& body) {
  const LaunchOptions options{.backend = job.backend,
                              .device = job.device,
                              .world = static_cast<int>(device_count(input.manifest.mesh)),
                              .deadline = job.deadline,
                              .start_deadline = job.start_deadline,
                              .agreement = fmt::format("manifest {}, {}, {}{}", input.sha256, kExecVersion, command,
                                                       job.broadcast ? "\nbroadcast" : "")};
  const JobResult end = run_ranks(options, [&](Comm& comm) {
    report_errors_if(nullptr);
    const auto report_notes = [&] {
      if (job.quiet) return;
      for (const Fault& note : comm.notes) report(note);
    };
    try {
      const int status = body(comm);
      report_notes();
      return status;
    } catch (...) {
      report_notes();
      throw;
    }
  });
  if (!end.fault) return end.status;
  // The error of an unconnected rank: `report` decides whether to print it.
  const bool is_before_connection = !end.has_begun && end.fault->rank < 0;
  if (!is_before_connection) report_errors_if(nullptr);
  if (is_before_connection || is_reporter(*end.fault, end.has_begun))
    return std::max(end.status, report(*end.fault, input.file.name));
  std::this_thread::sleep_for(kReportTime);
  return std::max(end.status, exit_status(*end.fault));
}

int run_command(const std::string& manifest, const JobArguments& job, const std::function<int()>& command) {
  set_error_format(job.format);
  raise_file_limit();
  start_stuck_watchdog(job.deadline);
  report_errors_if(reports_for_node);
  int status = 0;
  try {
    // Sets the rank and step for errors before the ranks connect. Malformed launcher variables are ignored here,
    // because run_ranks rejects them.
    try {
      if (const RankIdentity identity = find_rank(std::getenv); identity.world > 1)
        set_call_place(
            {.rank = identity.rank, .step = fmt::format("step 0 (before ranks connect, on {})", host_name())});
    } catch (const Fault&) {
    }
    status = command();
  } catch (...) {
    status = report(current_error(), manifest);
  }
  finish_report();
  return status;
}

void print_result(const std::function<void(JsonWriter&)>& write) {
  JsonWriter json;
  begin_object(json);
  write(json);
  end_object(json);
  print_raw(STDOUT_FILENO, json.out + '\n');
}

void write_seconds(JsonWriter& json, double seconds) {
  write_key(json, "seconds");
  write_number(json, seconds, 6);
}

std::string speed_text(uint64_t bytes, double seconds) {
  return fmt::format("{} in {:.2f} s, {:.2f} GB/s", human_bytes(bytes), seconds,
                     seconds > 0 ? static_cast<double>(bytes) / seconds / 1e9 : 0.0);
}

}  // namespace tpplan
