#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <charconv>

#include "base/text.h"
#include "commands.h"
#include "job.h"
#include "terminal.h"

namespace tpplan {
namespace {

struct LoadSummary {
  uint64_t read = 0, needed = 0;
  double seconds = 0;
  std::vector<uint64_t> rank_bytes;
};

// What rank 0 learns of the others: "read seconds bytes".
LoadSummary summarise(const std::vector<std::string>& texts, size_t processes_of_one, uint64_t needed) {
  LoadSummary summary{.needed = needed};
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    const std::vector<std::string_view> parts = split(texts[rank], ' ');
    int64_t read = 0, micros = 0, bytes = 0;
    if (parts.size() != 3 || !parse_decimal(parts[0], read) || !parse_decimal(parts[1], micros) ||
        !parse_decimal(parts[2], bytes))
      continue;
    if (rank % processes_of_one == 0) summary.read += static_cast<uint64_t>(read);
    summary.seconds = std::max(summary.seconds, static_cast<double>(micros) / 1e6);
    summary.rank_bytes.push_back(static_cast<uint64_t>(bytes));
  }
  return summary;
}

void print_summary(const LoadSummary& summary, const JobArguments& job) {
  uint64_t least = UINT64_MAX, most = 0;
  for (const uint64_t bytes : summary.rank_bytes) least = std::min(least, bytes), most = std::max(most, bytes);
  if (job.json) {
    print(STDOUT_FILENO,
          fmt::format("{{\"read_bytes\": {}, \"needed_bytes\": {}, \"seconds\": {:.6f}, \"bytes_per_rank\": [{}]}}\n",
                      summary.read, summary.needed, summary.seconds, fmt::join(summary.rank_bytes, ", ")));
  } else if (!job.quiet) {
    print(
        STDERR_FILENO,
        fmt::format("loaded {} on {}; {} a rank; {} read for {} needed\n", speed_text(summary.read, summary.seconds),
                    counted(summary.rank_bytes.size(), "rank"),
                    least == most ? human_bytes(most) : fmt::format("{} to {}", human_bytes(least), human_bytes(most)),
                    human_bytes(summary.read), human_bytes(summary.needed)));
  }
}

}  // namespace

int cmd_load(const LoadArguments& arguments, const JobArguments& job) {
  ManifestInput input;
  int status = read_manifest_file(arguments.manifest, input.file, input.manifest, input.sha256);
  if (status != 0) return status;
  WeightSource source;
  status = open_source(arguments.weights, input.manifest, job, source);
  if (status != 0) return status;
  SharedShards shared;
  return run_job(input, job, "load", [&](Comm& comm) {
    if (load_once(comm, input.manifest, source, job, shared) == nullptr) return kShortOfMemory;
    std::vector<std::string> all;
    const std::string mine =
        fmt::format("{} {} {}", shared.loaded.read_bytes, static_cast<uint64_t>(shared.loaded.seconds * 1e6),
                    bytes_of_rank(input.manifest, comm.rank));
    if (!comm.backend->gather_texts(comm, mine, all)) return 1;
    if (comm.rank == 0) print_summary(summarise(all, comm.process.size(), shared.loaded.needed_bytes), job);
    return 0;
  });
}

}  // namespace tpplan
