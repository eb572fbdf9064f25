#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <tuple>

#include "base/text.h"
#include "commands.h"
#include "exec/ranks/gather.h"
#include "exec/shards/print_reads.h"
#include "job.h"
#include "terminal.h"

namespace tpplan {
namespace {

struct LoadSummary {
  uint64_t read = 0, needed = 0, checked = 0, opened = 0;
  double seconds = 0;
  std::vector<uint64_t> rank_bytes;
};

// Message with a rank's statistics, gathered at rank 0.
struct RankLoad {
  uint64_t read = 0, needed = 0, bytes = 0, checked = 0, opened = 0;
  bool is_broadcast = false;  // if true, `needed` counts this rank's bytes, else those of its node
  double seconds = 0;
};
auto fields(RankLoad& load) {
  return std::tie(load.read, load.needed, load.bytes, load.checked, load.opened, load.is_broadcast, load.seconds);
}

LoadSummary summarise(const std::vector<RankLoad>& ranks) {
  LoadSummary summary;
  for (const RankLoad& rank : ranks) {
    summary.read += rank.read;
    summary.needed = rank.is_broadcast ? summary.needed + rank.needed : ranks.front().needed;
    summary.checked += rank.checked;
    summary.opened = std::max(summary.opened, rank.opened);
    summary.seconds = std::max(summary.seconds, rank.seconds);
    summary.rank_bytes.push_back(rank.bytes);
  }
  return summary;
}

void print_summary(const LoadSummary& summary, const JobArguments& job) {
  uint64_t least = UINT64_MAX, most = 0;
  for (const uint64_t bytes : summary.rank_bytes) least = std::min(least, bytes), most = std::max(most, bytes);
  if (job.json) {
    print_result([&](JsonWriter& json) {
      write_field(json, "read_bytes", summary.read);
      write_field(json, "needed_bytes", summary.needed);
      write_field(json, "checked_bytes", summary.checked);
      write_field(json, "most_files_opened", summary.opened);
      write_seconds(json, summary.seconds);
      write_key(json, "bytes_per_rank");
      write_array(json, summary.rank_bytes);
    });
  } else if (prints_human(job)) {
    print(STDERR_FILENO,
          fmt::format(
              "loaded {} on {}; {} per rank; {} read, {} needed{}\n", speed_text(summary.read, summary.seconds),
              counted(summary.rank_bytes.size(), "rank"),
              least == most ? human_bytes(most) : fmt::format("{} to {}", human_bytes(least), human_bytes(most)),
              human_bytes(summary.read), human_bytes(summary.needed),
              summary.checked == 0 ? "" : fmt::format(", {} checked against checksums", human_bytes(summary.checked))));
  }
}

}  // namespace

int cmd_load(const LoadArguments& arguments, const JobArguments& job) {
  ManifestInput input;
  int status = read_manifest_file(arguments.manifest, input.file, input.manifest, input.sha256);
  if (status != 0) return status;
  WeightSource source;
  SavedFolder known;
  const bool is_known = arguments.print.empty() && find_local_shards(arguments.weights, input, job, known);
  if (!is_known) status = open_source(arguments.weights, input.manifest, job, source);
  if (status != 0) return status;
  if (arguments.print == "reads") {
    std::vector<int> ranks(static_cast<size_t>(device_count(input.manifest.mesh)));
    std::iota(ranks.begin(), ranks.end(), 0);
    return print(STDOUT_FILENO, print_reads(plan_reads(input.manifest, source, ranks), source)) ? 0 : 2;
  }
  SharedShards shared;
  return run_job(input, job, agreement_of("load", is_known ? known.first : source), [&](Comm& comm) {
    if (is_known) open_on_all_ranks(comm, known, source);
    const LoadResult loaded = load_together(comm, input.manifest, source, job, shared);
    const std::vector<RankLoad> all = gather(comm, RankLoad{.read = loaded.read_bytes,
                                                            .needed = loaded.needed_bytes,
                                                            .bytes = bytes_of_rank(input.manifest, comm.rank),
                                                            .checked = loaded.checked_bytes,
                                                            .opened = source.weights.files.size(),
                                                            .is_broadcast = loaded.is_broadcast,
                                                            .seconds = loaded.seconds});
    if (comm.rank == 0) print_summary(summarise(all), job);
    return 0;
  });
}

}  // namespace tpplan
