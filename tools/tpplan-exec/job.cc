#include "job.h"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include "base/text.h"
#include "base/write_file.h"
#include "ranks/rank_source.h"
#include "render/render.h"
#include "shards/ask_for_memory.h"
#include "shards/shard_folder.h"
#include "terminal.h"

namespace tpplan {
namespace {

void print_header_findings(WeightFiles& weights, int& status) {
  for (FileFindings& findings : weights.findings) {
    Sources sources;
    sources.files[static_cast<size_t>(Source::Model)] = findings.file;
    finish_diagnostics(findings.diagnostics);
    print(STDERR_FILENO, render_human(findings.diagnostics, sources, render_options(STDERR_FILENO, ColorChoice::Auto)));
    status = std::max(status, exit_status(findings.diagnostics));
  }
}

}  // namespace

bool speaks_for_the_job() {
  RankIdentity who;
  std::string fault;  // of its variables, which run_ranks will refuse
  return !find_rank(std::getenv, who, fault) || who.rank == 0;
}

int open_source(const std::string& path, const Manifest& manifest, const JobArguments& job, WeightSource& source,
                std::span<const std::string> said) {
  const bool good = open_weights(path, manifest, source);
  int status = 0;
  print_header_findings(source.weights, status);
  for (const std::string& fault : source.faults) print(STDERR_FILENO, fmt::format("tpplan-exec: error: {}\n", fault));
  if (good && !job.quiet && speaks_for_the_job()) {
    for (const std::string& warning : source.warnings) {
      if (std::ranges::find(said, warning) == said.end())
        print(STDERR_FILENO, fmt::format("tpplan-exec: warning: {}\n", warning));
    }
  }
  return good ? status : std::max(status, source.status);
}

std::vector<std::string> files_of(const WeightSource& source) {
  std::vector<std::string> files;
  for (const SourceFileHandle& file : source.files) files.push_back(file.path);
  if (!source.weights.index.name.empty()) files.push_back(source.weights.index.name);
  if (source.is_folder_of_shards && !source.files.empty()) {
    files.push_back((std::filesystem::path(source.files[0].path).parent_path() / kFolderNote).string());
  }
  return files;
}

std::string output_fault(std::string_view flag, const std::string& output, const std::vector<std::string>& inputs) {
  if (output == "-")
    return fmt::format("{}: is written in pieces, which standard output does not take: name a file", flag);
  if (!output.empty() && is_same_file(output, inputs))
    return fmt::format("{}: {} is one of the inputs; name another file", flag, escape_for_terminal(output));
  return "";
}

int open_saved(const std::string& folder, const ManifestInput& input, const JobArguments& job, WeightSource& source,
               std::span<const std::string> said) {
  std::string written_by;
  const std::string fault = read_note(folder, written_by);
  if (!fault.empty()) return refuse(2, fault);
  if (!written_by.empty() && written_by != input.sha256)
    return refuse(1, fmt::format("{}: was written by another manifest: its SHA-256 is {}..., that of {} is {}...",
                                 escape_for_terminal(folder), written_by.substr(0, 12),
                                 escape_for_terminal(input.file.name), input.sha256.substr(0, 12)));
  return open_source(folder, input.manifest, job, source, said);
}

bool has_memory(Comm& comm, const Manifest& manifest) {
  std::string shortage;
  if (!ask_for_memory(comm, manifest, shortage)) throw std::runtime_error(comm.fault);
  if (!shortage.empty() && comm.rank == 0) refuse(kShortOfMemory, shortage);
  return shortage.empty();
}

ShardStore* load_once(Comm& comm, const Manifest& manifest, const WeightSource& source, const JobArguments& job,
                      SharedShards& shared) {
  if (!has_memory(comm, manifest)) return nullptr;
  std::call_once(shared.filled, [&] {
    try {
      for (const int rank : comm.process) shared.stores.push_back(allocate_shards(manifest, rank, *comm.device));
      const bool progress = !job.quiet && !job.json && comm.rank == comm.process.front();
      shared.loaded = load_shards(comm, source, shared.stores,
                                  {.staging = job.staging, .threads = job.threads, .progress = progress});
    } catch (const std::bad_alloc&) {
      shared.fault = "out of memory";
    } catch (const std::exception& error) {
      shared.fault = error.what();
    }
  });
  if (!shared.fault.empty()) throw std::runtime_error(shared.fault);
  const auto store = std::ranges::find(shared.stores, comm.rank, &ShardStore::rank);
  return &*store;
}

int run_job(const ManifestInput& input, const JobArguments& job, std::string_view command, const RankBody& body) {
  const LaunchOptions options{.backend = job.backend,
                              .device = job.device,
                              .world = static_cast<int>(device_count(input.manifest.mesh)),
                              .deadline = job.deadline,
                              .agreement = fmt::format("manifest {}, {}, {}", input.sha256, kExecVersion, command)};
  std::string fault;
  const int status = run_ranks(options, body, fault);
  return fault.empty() ? status : refuse(std::max(status, 1), fault);
}

TwoTotals add_up(std::span<const std::string> texts) {
  TwoTotals totals;
  for (const std::string& text : texts) {
    const std::vector<std::string_view> parts = split(text, ' ');
    int64_t first = 0, second = 0;
    if (parts.size() != 2 || !parse_decimal(parts[0], first) || !parse_decimal(parts[1], second)) continue;
    totals.first += static_cast<uint64_t>(first);
    totals.second += static_cast<uint64_t>(second);
  }
  return totals;
}

std::string speed_text(uint64_t bytes, double seconds) {
  return fmt::format("{} in {:.2f} s, {:.2f} GB/s", human_bytes(bytes), seconds,
                     seconds > 0 ? static_cast<double>(bytes) / seconds / 1e9 : 0.0);
}

}  // namespace tpplan
