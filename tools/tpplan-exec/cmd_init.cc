#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "base/sha256.h"
#include "base/text.h"
#include "base/write_file.h"
#include "commands.h"
#include "job.h"
#include "ranks/memory_sharers.h"
#include "shards/init_shards.h"
#include "shards/save_shards.h"
#include "shards/work_together.h"
#include "terminal.h"

namespace tpplan {
namespace {

constexpr size_t kNamed = 100;  // names that one message lists

std::string list_names(const std::vector<std::string_view>& names) {
  std::string out;
  for (size_t i = 0; i < std::min(names.size(), kNamed); ++i) out += "\n  " + escape_for_terminal(names[i]);
  if (names.size() > kNamed) out += fmt::format("\n  and {} more", names.size() - kNamed);
  return out;
}

// Prints what cannot be filled; the exit status that it calls for.
int check_plan(const InitPlan& plan, const Manifest& manifest, const JobArguments& job) {
  for (const std::string& fault : plan.faults)
    refuse(1, fmt::format("{}; change `init` in the plan and compile it again", fault));
  if (!plan.unsaid.empty()) {
    refuse(1,
           fmt::format("nobody says what {} filled with:{}\nhelp: {}",
                       plan.unsaid.size() == 1 ? "this parameter is"
                                               : fmt::format("these {} are", counted(plan.unsaid.size(), "parameter")),
                       list_names(plan.unsaid),
                       fmt::format("{}name them in the plan and compile it again: `init: {{\"PATTERN\": {{normal: "
                                   "{{mean: 0, std: 0.02}}}}}}`, or zeros, ones, {{constant: 0.5}}",
                                   manifest.distributions.empty()
                                       ? "if an older tpplan wrote the manifest, compile the plan again; else "
                                       : "")));
  }
  if (!plan.faults.empty() || !plan.unsaid.empty()) return 1;
  if (!plan.left_out_names.empty() && !job.quiet && speaks_for_the_job()) {
    print(STDERR_FILENO,
          fmt::format("tpplan-exec: warning: {} left out, because the plan's `init` does not name {}:{}\n",
                      plan.left_out_names.size() == 1 ? "this buffer is" : "these buffers are",
                      plan.left_out_names.size() == 1 ? "it" : "them", list_names(plan.left_out_names)));
  }
  return 0;
}

// Of the rank's shards, one after the other.
std::string hash_of(const ShardStore& store, const std::vector<bool>& left_out) {
  std::string hashes;
  std::vector<char> buffer;
  for (size_t i = 0; i < store.shards.size(); ++i) {
    if (left_out[i]) continue;
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

// What rank 0 learns of each rank: "bytes drawn microseconds hash".
InitSummary summarise(const std::vector<std::string>& texts) {
  InitSummary summary;
  for (const std::string& text : texts) {
    const std::vector<std::string_view> parts = split(text, ' ');
    int64_t bytes = 0, drawn = 0, micros = 0;
    if (parts.size() != 4 || !parse_decimal(parts[0], bytes) || !parse_decimal(parts[1], drawn) ||
        !parse_decimal(parts[2], micros))
      continue;
    summary.bytes.push_back(static_cast<uint64_t>(bytes));
    summary.drawn.push_back(static_cast<uint64_t>(drawn));
    summary.seconds = std::max(summary.seconds, static_cast<double>(micros) / 1e6);
    summary.hashes.push_back(fmt::format("\"{}\"", parts[3]));
  }
  return summary;
}

void print_summary(const InitSummary& summary, uint64_t seed, const JobArguments& job) {
  uint64_t bytes = 0, drawn = 0;
  for (const uint64_t b : summary.bytes) bytes += b;
  for (const uint64_t d : summary.drawn) drawn += d;
  if (job.json) {
    print(STDOUT_FILENO, fmt::format("{{\"algorithm\": \"{}\", \"seed\": {}, \"seconds\": {:.6f}, \"values_drawn\": "
                                     "{}, \"bytes_per_rank\": [{}], \"sha256_per_rank\": [{}]}}\n",
                                     kInitAlgorithm, seed, summary.seconds, drawn, fmt::join(summary.bytes, ", "),
                                     fmt::join(summary.hashes, ", ")));
  } else if (!job.quiet) {
    print(STDERR_FILENO, fmt::format("initialised {} on {} with seed {}; {:.0f} million values drawn a second\n",
                                     speed_text(bytes, summary.seconds), counted(summary.bytes.size(), "rank"), seed,
                                     summary.seconds > 0 ? static_cast<double>(drawn) / 1e6 / summary.seconds : 0.0));
  }
}

}  // namespace

int cmd_init(const InitArguments& arguments, const JobArguments& job) {
  ManifestInput input;
  int status = read_manifest_file(arguments.manifest, input.file, input.manifest, input.sha256);
  if (status != 0) return status;
  if (const std::string fault = output_fault("--consolidated", arguments.consolidated, {arguments.manifest});
      !fault.empty())
    return refuse(2, fault);
  if (const std::string fault = packing_fault(input.manifest); !fault.empty()) return refuse(1, fault);
  const InitPlan plan = plan_init(input.manifest);
  status = check_plan(plan, input.manifest, job);
  if (status != 0) return status;
  return run_job(input, job, fmt::format("init with seed {}", arguments.seed), [&](Comm& comm) {
    if (!has_memory(comm, input.manifest)) return kShortOfMemory;
    ShardStore store = allocate_shards(input.manifest, comm.rank, *comm.device);
    const int processors =
        job.threads > 0 ? job.threads : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    const int threads = std::max(1, processors / static_cast<int>(comm.process.size()));
    uint64_t drawn = 0;
    double seconds = 0;
    std::string fault = work_together(comm, "init", [&] {
      const auto start = std::chrono::steady_clock::now();
      use_device(comm);
      drawn = init_shards(store, arguments.seed, threads);
      seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    });
    SaveOptions options{.path = arguments.output, .manifest_sha256 = input.sha256, .left_out = plan.left_out};
    if (fault.empty() && !arguments.output.empty()) fault = save_shards(comm, store, options).fault;
    options.path = arguments.consolidated;
    if (fault.empty() && !arguments.consolidated.empty()) fault = save_consolidated(comm, store, options).fault;
    if (!fault.empty()) return comm.rank == comm.process.front() ? refuse(1, fault) : 1;
    std::vector<std::string> all;
    const std::string mine =
        fmt::format("{} {} {} {}", bytes_of_rank(input.manifest, comm.rank), drawn,
                    static_cast<uint64_t>(seconds * 1e6), job.json ? hash_of(store, plan.left_out) : "-");
    if (!comm.backend->gather_texts(comm, mine, all)) return 1;
    if (comm.rank == 0) print_summary(summarise(all), arguments.seed, job);
    return 0;
  });
}

}  // namespace tpplan
