#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include "base/text.h"
#include "base/write_file.h"
#include "commands.h"
#include "job.h"
#include "ranks/gather.h"
#include "shards/checksums.h"
#include "shards/verify_shards.h"
#include "terminal.h"

namespace tpplan {
namespace {

// What the ranks of this process share: each part is done by one of their threads.
struct Verification {
  SharedShards shards;
  std::once_flag compared;
  VerifyResult result;
  std::optional<Fault> fault;
};

// What a rank found equal.
struct RankProof {
  uint64_t compared_bytes = 0;
  double seconds = 0;
};
auto members(RankProof& proof) { return std::tie(proof.compared_bytes, proof.seconds); }

// Compares the shards with `weights`, once a process; throws the first difference.
void compare_once(Comm& comm, const WeightSource& weights, const JobArguments& job, Verification& shared) {
  std::call_once(shared.compared, [&] {
    try {
      shared.result = verify_shards(comm, weights, shared.shards.stores, job.threads,
                                    !job.quiet && !job.json && comm.rank == comm.process.front());
      shared.fault = shared.result.difference;
    } catch (...) {
      shared.fault = current_fault();
    }
  });
  if (shared.fault) throw *shared.fault;
}

// Rank 0: writes the checksums or compares them. Returns the exit status.
int use_checksums(const VerifyArguments& arguments, const ManifestInput& input, const Checksums& checksums) {
  if (!arguments.checksums.empty()) {
    int status = 0;
    for (const Fault& fault : compare_checksums(arguments.checksums, input.manifest, input.sha256, checksums))
      status = std::max(status, report(fault));
    if (status != 0) return status;
  }
  if (arguments.write_checksums.empty()) return 0;
  const std::string fault = write_output(arguments.write_checksums, [&](const Sink& sink) {
    return sink(checksums_text(input.manifest, input.sha256, checksums));
  });
  return fault.empty() ? 0
                       : report({.code = Code::TP1009,
                                 .message = fmt::format("cannot write the checksums: {}", fault),
                                 .place = arguments.write_checksums});
}

void print_result(const VerifyArguments& arguments, const ManifestInput& input, const VerifyResult& result,
                  const JobArguments& job) {
  const bool compared = !arguments.weights.empty();
  if (job.json) {
    print(STDOUT_FILENO, fmt::format("{{\"equal\": true, \"compared_bytes\": {}, \"seconds\": {:.6f}}}\n",
                                     result.compared_bytes, result.seconds));
  } else if (!job.quiet) {
    print(STDERR_FILENO,
          fmt::format("the shards tile {}{}{}\n",
                      counted(input.manifest.parameters.size() + input.manifest.buffers.size(), "tensor"),
                      compared ? " and equal the source: " + speed_text(result.compared_bytes, result.seconds) : "",
                      arguments.checksums.empty() ? "" : "; checksums agree"));
  }
}

}  // namespace

int cmd_verify(const VerifyArguments& arguments, const JobArguments& job) {
  const bool hashes = !arguments.checksums.empty() || !arguments.write_checksums.empty();
  if (arguments.weights.empty() && (arguments.from.empty() || !hashes))
    return usage_error("verify compares with --weights, or shards of --from with --checksums; neither is given");
  ManifestInput input;
  int status = read_manifest_file(arguments.manifest, input.file, input.manifest, input.sha256);
  if (status != 0) return status;
  check_packing(input.manifest);
  for (const Fault& fault : tiling_faults(input.manifest)) status = std::max(status, report(fault, input.file.name));
  if (status != 0) return status;
  WeightSource weights, folder;
  if (!arguments.weights.empty()) status = open_source(arguments.weights, input.manifest, job, weights);
  if (status == 0 && !arguments.from.empty()) status = open_saved(arguments.from, input, job, folder, &weights);
  if (status != 0) return status;
  std::vector<std::string> inputs{arguments.manifest, arguments.checksums};
  for (const WeightSource* source : {&weights, &folder}) {
    for (std::string& file : files_of(*source)) inputs.push_back(std::move(file));
  }
  if (arguments.write_checksums != "-") check_output("--write-checksums", arguments.write_checksums, inputs);
  const WeightSource& loaded = arguments.from.empty() ? weights : folder;
  Verification shared;
  return run_job(input, job, "verify", [&](Comm& comm) {
    load_once(comm, input.manifest, loaded, job, shared.shards);
    if (!arguments.weights.empty()) compare_once(comm, weights, job, shared);
    VerifyResult total;
    const std::vector<RankProof> all = gather(comm, RankProof{shared.result.compared_bytes, shared.result.seconds});
    for (size_t rank = 0; rank < all.size(); ++rank) {
      total.seconds = std::max(total.seconds, all[rank].seconds);
      if (rank % comm.process.size() == 0) total.compared_bytes += all[rank].compared_bytes;
    }
    int found = 0;
    if (hashes) {
      const bool leads = comm.rank == comm.process.front();
      const Checksums checksums =
          hash_shards(comm, leads ? std::span<const ShardStore>(shared.shards.stores) : std::span<const ShardStore>(),
                      loaded.missing, job.threads);
      if (comm.rank == 0) found = use_checksums(arguments, input, checksums);
    }
    if (comm.rank == 0 && found == 0) print_result(arguments, input, total, job);
    return found;
  });
}

}  // namespace tpplan
