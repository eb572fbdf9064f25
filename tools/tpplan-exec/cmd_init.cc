#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <tuple>

#include "base/sha256.h"
#include "base/text.h"
#include "base/write_file.h"
#include "commands.h"
#include "exec/ranks/deadline.h"
#include "exec/ranks/gather.h"
#include "exec/shards/init_shards.h"
#include "exec/shards/require_memory.h"
#include "exec/shards/save_shards.h"
#include "exec/shards/work_together.h"
#include "job.h"
#include "manifest/shardings_digest.h"
#include "terminal.h"

namespace tpplan {
namespace {

constexpr size_t kNamed = 20;  // maximum names in one message

std::string list_names(const std::vector<std::string_view>& names) {
  std::vector<std::string> shown;
  for (size_t i = 0; i < std::min(names.size(), kNamed); ++i) shown.push_back(escape_for_terminal(names[i]));
  return join(shown, ", ") + (names.size() > kNamed ? fmt::format(" and {} more", names.size() - kNamed) : "");
}

Fault missing_init_error(const InitPlan& plan, const Manifest& manifest) {
  return {.code = Code::NoInitializer,
          .message = fmt::format("no initial values are specified for {}: {}",
                                 plan.unspecified.size() == 1
                                     ? "this parameter"
                                     : fmt::format("these {}", counted(plan.unspecified.size(), "parameter")),
                                 list_names(plan.unspecified)),
          .help = fmt::format("{}add them to the plan and compile it again: `init: {{\"PATTERN\": {{normal: {{mean: 0, "
                              "std: 0.02}}}}}}`, or zeros, ones, {{constant: 0.5}}",
                              manifest.distributions.empty()
                                  ? "if an older tpplan wrote the manifest, compile the plan again; otherwise "
                                  : "")};
}

// Reports tensors that cannot be filled. Returns the exit status.
int check_plan(const InitPlan& plan, const ManifestInput& input, const JobArguments& job) {
  int status = 0;
  for (const Fault& fault : plan.faults) status = std::max(status, report(fault, input.file.name));
  if (!plan.unspecified.empty())
    status = std::max(status, report(missing_init_error(plan, input.manifest), input.file.name));
  if (status == 0 && !plan.omitted_names.empty() && !job.quiet && reports_for_job()) {
    const bool one = plan.omitted_names.size() == 1;
    report({.code = Code::BuffersOmitted,
            .message = fmt::format("{} skipped, because the plan's `init` does not match {}: {}",
                                   one ? "this buffer is" : "these buffers are", one ? "it" : "them",
                                   list_names(plan.omitted_names))},
           input.file.name);
  }
  return status;
}

// Returns one hash over the hashes of the rank's shards.
std::string hash_of(const ShardStore& store, const std::vector<bool>& omitted) {
  std::string hashes;
  std::vector<char> buffer;
  for (size_t i = 0; i < store.shards.size(); ++i) {
    if (omitted[i]) continue;
    const Shard& shard = store.shards[i];
    hashes += sha256_hex({host_view(*store.device, shard.data, shard.bytes, buffer), shard.bytes});
  }
  return sha256_hex(hashes);
}

struct InitSummary {
  std::vector<uint64_t> bytes, drawn;
  std::vector<std::string> hashes;
  double seconds = 0;
};

// Message with a rank's statistics, gathered at rank 0.
struct RankInit {
  uint64_t bytes = 0, drawn = 0;
  double seconds = 0;
  std::string hash;
};
auto fields(RankInit& init) { return std::tie(init.bytes, init.drawn, init.seconds, init.hash); }

InitSummary summarise(const std::vector<RankInit>& ranks) {
  InitSummary summary;
  for (const RankInit& rank : ranks) {
    summary.bytes.push_back(rank.bytes);
    summary.drawn.push_back(rank.drawn);
    summary.seconds = std::max(summary.seconds, rank.seconds);
    summary.hashes.push_back(rank.hash);
  }
  return summary;
}

void print_summary(const InitSummary& summary, uint64_t seed, const JobArguments& job) {
  uint64_t bytes = 0, drawn = 0;
  for (const uint64_t b : summary.bytes) bytes += b;
  for (const uint64_t d : summary.drawn) drawn += d;
  if (job.json) {
    print_result([&](JsonWriter& json) {
      write_field(json, "algorithm", kInitAlgorithm);
      write_field(json, "seed", seed);
      write_seconds(json, summary.seconds);
      write_field(json, "values_drawn", drawn);
      write_key(json, "bytes_per_rank");
      write_array(json, summary.bytes);
      write_key(json, "sha256_per_rank");
      write_array(json, summary.hashes);
    });
  } else if (prints_human(job)) {
    print(STDERR_FILENO, fmt::format("initialised {} on {} with seed {}; {:.0f} million values drawn per second\n",
                                     speed_text(bytes, summary.seconds), counted(summary.bytes.size(), "rank"), seed,
                                     summary.seconds > 0 ? static_cast<double>(drawn) / 1e6 / summary.seconds : 0.0));
  }
}

}  // namespace

int cmd_init(const InitArguments& arguments, const JobArguments& job) {
  if (arguments.max_file_bytes != 0 && arguments.consolidated.empty())
    return usage_error("--max-file-size requires --consolidated");
  ManifestInput input;
  int status = read_manifest_file(arguments.manifest, input.file, input.manifest, input.sha256);
  if (status != 0) return status;
  check_output("--consolidated", arguments.consolidated, {arguments.manifest});
  check_packing(input.manifest);
  const InitPlan plan = plan_init(input.manifest);
  status = check_plan(plan, input, job);
  if (status != 0) return status;
  return run_job(input, job, fmt::format("init with seed {}", arguments.seed), [&](Comm& comm) {
    require_memory(comm, input.manifest);
    ShardStore store = allocate_shards(input.manifest, comm.rank, *comm.device);
    const int processors =
        job.threads > 0 ? job.threads : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    const int threads = std::max(1, processors / static_cast<int>(comm.process.size()));
    uint64_t drawn = 0;
    double seconds = 0;
    work_together(comm, "init", [&] {
      const Clock::time_point start = Clock::now();
      drawn = init_shards(store, arguments.seed, threads);
      seconds = seconds_since(start);
    });
    SaveOptions options{
        .path = arguments.output, .shardings_sha256 = shardings_sha256(input.manifest), .omitted = plan.omitted};
    if (!arguments.output.empty()) std::ignore = save_shards(comm, store, options);
    options.path = arguments.consolidated;
    options.max_file_bytes = arguments.max_file_bytes;
    if (!arguments.consolidated.empty()) std::ignore = save_unsharded(comm, store, options);
    const std::vector<RankInit> all = gather(comm, RankInit{.bytes = bytes_of_rank(input.manifest, comm.rank),
                                                            .drawn = drawn,
                                                            .seconds = seconds,
                                                            .hash = job.json ? hash_of(store, plan.omitted) : "-"});
    if (comm.rank == 0) print_summary(summarise(all), arguments.seed, job);
    return 0;
  });
}

}  // namespace tpplan
