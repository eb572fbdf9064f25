#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <optional>

#include "base/text.h"
#include "base/write_file.h"
#include "commands.h"
#include "job.h"
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
  std::string fault;
};

// Compares the shards with `weights`, once a process; true when they are equal.
bool compare_once(Comm& comm, const WeightSource& weights, const JobArguments& job, Verification& shared) {
  std::call_once(shared.compared, [&] {
    try {
      shared.result = verify_shards(comm, weights, shared.shards.stores, job.threads,
                                    !job.quiet && !job.json && comm.rank == comm.process.front());
    } catch (const std::exception& error) {
      shared.fault = error.what();
    }
  });
  if (!shared.fault.empty()) throw std::runtime_error(shared.fault);
  return shared.result.difference.empty();
}

// Rank 0: writes the checksums or compares them. Returns the exit status.
int use_checksums(const VerifyArguments& arguments, const ManifestInput& input, const Checksums& checksums) {
  if (!arguments.checksums.empty()) {
    bool unreadable = false;
    const std::vector<std::string> faults =
        compare_checksums(arguments.checksums, input.manifest, input.sha256, checksums, unreadable);
    for (const std::string& fault : faults) refuse(1, fault);
    if (!faults.empty()) return unreadable ? 2 : 1;
  }
  if (arguments.write_checksums.empty()) return 0;
  const std::string fault = write_output(arguments.write_checksums, [&](const Sink& sink) {
    return sink(checksums_text(input.manifest, input.sha256, checksums));
  });
  return fault.empty() ? 0 : refuse(2, fmt::format("{}: {}", escape_for_terminal(arguments.write_checksums), fault));
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
    return refuse(2, "verify compares with --weights, or shards of --from with --checksums; neither is given");
  ManifestInput input;
  int status = read_manifest_file(arguments.manifest, input.file, input.manifest, input.sha256);
  if (status != 0) return status;
  if (const std::string fault = packing_fault(input.manifest); !fault.empty()) return refuse(1, fault);
  for (const std::string& fault : tiling_faults(input.manifest)) status = refuse(1, fault);
  if (status != 0) return status;
  WeightSource weights, folder;
  if (!arguments.weights.empty()) status = open_source(arguments.weights, input.manifest, job, weights);
  if (status == 0 && !arguments.from.empty()) status = open_saved(arguments.from, input, job, folder, weights.warnings);
  if (status != 0) return status;
  std::vector<std::string> inputs{arguments.manifest, arguments.checksums};
  for (const WeightSource* source : {&weights, &folder}) {
    for (std::string& file : files_of(*source)) inputs.push_back(std::move(file));
  }
  const std::string fault =
      arguments.write_checksums == "-" ? "" : output_fault("--write-checksums", arguments.write_checksums, inputs);
  if (!fault.empty()) return refuse(2, fault);
  const WeightSource& loaded = arguments.from.empty() ? weights : folder;
  Verification shared;
  return run_job(input, job, "verify", [&](Comm& comm) {
    if (load_once(comm, input.manifest, loaded, job, shared.shards) == nullptr) return kShortOfMemory;
    const bool equal = arguments.weights.empty() || compare_once(comm, weights, job, shared);
    if (!equal && comm.rank == comm.process.front()) refuse(1, shared.result.difference);
    std::vector<std::string>
        all;  // the bytes that each rank found equal; nobody goes on where another found a difference
    if (!comm.backend->gather_texts(comm, equal ? fmt::format("{}", shared.result.compared_bytes) : "differs", all))
      return 1;
    VerifyResult total{.seconds = shared.result.seconds};
    for (size_t rank = 0; rank < all.size(); ++rank) {
      int64_t bytes = 0;
      if (!parse_decimal(all[rank], bytes)) return 1;
      if (rank % comm.process.size() == 0) total.compared_bytes += static_cast<uint64_t>(bytes);
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
