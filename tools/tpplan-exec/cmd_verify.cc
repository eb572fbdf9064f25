#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <span>
#include <tuple>

#include "base/text.h"
#include "commands.h"
#include "exec/ranks/gather.h"
#include "exec/shards/checksums.h"
#include "exec/shards/shard_store.h"
#include "exec/shards/verify_shards.h"
#include "job.h"
#include "manifest/shardings_digest.h"
#include "terminal.h"

namespace tpplan {
namespace {

// Message with the bytes that a rank compared.
struct RankProof {
  uint64_t compared_bytes = 0, checked_bytes = 0, read_bytes = 0;
  double seconds = 0;
};
auto fields(RankProof& proof) {
  return std::tie(proof.compared_bytes, proof.checked_bytes, proof.read_bytes, proof.seconds);
}

void add_proof(RankProof& all, const RankProof& more, int) {
  all.compared_bytes += more.compared_bytes;
  all.checked_bytes += more.checked_bytes;
  all.read_bytes += more.read_bytes;
  all.seconds = std::max(all.seconds, more.seconds);
}

// Compares the checksums with a file and writes them to a file, as requested. Returns the exit status.
int use_checksums(Comm& comm, const VerifyArguments& arguments, const ManifestInput& input,
                  std::span<const ShardStore> stores, const std::vector<bool>& omitted, int threads) {
  const Checksums checksums = hash_shards(comm, stores, omitted, threads);
  ChecksumJob job{.manifest = &input.manifest,
                  .shardings_sha256 = shardings_sha256(input.manifest),
                  .path = arguments.checksums,
                  .stores = stores,
                  .omitted = omitted};
  int status = 0;
  if (!arguments.checksums.empty()) {
    for (const Fault& fault : compare_checksums(comm, job, checksums))
      status = std::max(status, comm.rank == 0 ? report(fault) : exit_status(fault));
  }
  job.path = arguments.write_checksums;
  if (status == 0 && !job.path.empty()) write_checksums(comm, job, checksums);
  return status;
}

void print_proof(const VerifyArguments& arguments, const ManifestInput& input, const RankProof& result,
                 const JobArguments& job) {
  const bool compared = !arguments.weights.empty();
  if (job.json) {
    print_result([&](JsonWriter& json) {
      write_field(json, "equal", true);
      write_field(json, "compared_bytes", result.compared_bytes);
      write_field(json, "checked_bytes", result.checked_bytes);
      write_seconds(json, result.seconds);
    });
  } else if (prints_human(job)) {
    print(STDERR_FILENO,
          fmt::format("the shards tile {}{}{}{}\n", counted(tensor_count(input.manifest), "tensor"),
                      compared ? " and equal the source: " + speed_text(result.compared_bytes, result.seconds) : "",
                      result.checked_bytes == 0
                          ? ""
                          : fmt::format("; {} match their stored checksums", human_bytes(result.checked_bytes)),
                      arguments.checksums.empty() ? "" : "; checksums match"));
  }
}

}  // namespace

int cmd_verify(const VerifyArguments& arguments, const JobArguments& job) {
  const bool hashes = !arguments.checksums.empty() || !arguments.write_checksums.empty();
  if (arguments.weights.empty() && arguments.from.empty())
    return usage_error(hashes ? "verify requires --from or --weights"
                              : "verify requires --weights to compare with, or --from with stored checksums");
  ManifestInput input;
  int status = read_manifest_file(arguments.manifest, input.file, input.manifest, input.sha256);
  if (status != 0) return status;
  check_packing(input.manifest);
  for (const Fault& fault : tiling_errors(input.manifest)) status = std::max(status, report(fault, input.file.name));
  if (status != 0) return status;
  WeightSource weights, folder;
  if (!arguments.weights.empty()) status = open_source(arguments.weights, input.manifest, job, weights);
  SavedFolder known;  // unused if a checksum file is written, because that could be a file of the folder
  const bool is_known = status == 0 && !arguments.from.empty() && arguments.write_checksums.empty() &&
                        find_local_shards(arguments.from, input, job, known);
  if (status == 0 && !arguments.from.empty() && !is_known)
    status = open_saved(arguments.from, input, job, folder, &weights);
  if (status != 0) return status;
  std::vector<std::string> inputs{arguments.manifest, arguments.checksums};
  for (const WeightSource* source : {&weights, &folder}) {
    for (std::string& file : files_of(*source)) inputs.push_back(std::move(file));
  }
  if (arguments.write_checksums != "-") check_output("--write-checksums", arguments.write_checksums, inputs);
  const WeightSource& loaded = arguments.from.empty() ? weights : folder;
  SharedShards shared;
  return run_job(
      input, job,
      agreement_of(arguments.weights.empty() ? "verify" : "verify with weights", is_known ? known.first : loaded),
      [&](Comm& comm) {
        if (is_known) open_on_all_ranks(comm, known, folder);
        const LoadResult read = load_together(comm, input.manifest, loaded, job, shared);
        VerifyResult result;
        if (!arguments.weights.empty())
          result = verify_shards(comm, weights, work_of(comm, shared), job.threads, progress_of(comm, job));
        if (result.difference) throw *result.difference;
        const RankProof total = fold(comm,
                                     RankProof{result.compared_bytes, read.checked_bytes, read.read_bytes,
                                               arguments.weights.empty() ? read.seconds : result.seconds},
                                     add_proof);
        if (arguments.weights.empty() && !hashes && total.checked_bytes < total.read_bytes)
          throw Fault{.code = Code::InvalidChecksums,
                      .message = fmt::format("{} of {} have no stored checksum",
                                             human_bytes(total.read_bytes - total.checked_bytes),
                                             human_bytes(total.read_bytes)),
                      .help = "pass --weights or --checksums to compare with",
                      .place = arguments.from};
        int found = 0;
        if (hashes) found = use_checksums(comm, arguments, input, work_of(comm, shared), loaded.missing, job.threads);
        if (comm.rank == 0 && found == 0) print_proof(arguments, input, total, job);
        return found;
      });
}

}  // namespace tpplan
