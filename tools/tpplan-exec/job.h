// What the commands that move weights have in common: their inputs, the ranks' shards, and the job's end.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/source_file.h"
#include "commands.h"
#include "manifest/manifest.h"
#include "ranks/launch.h"
#include "shards/load_shards.h"
#include "shards/open_weights.h"
#include "shards/saved_source.h"
#include "shards/shard_store.h"
#include "syntax/json_writer.h"

namespace tpplan {

struct ManifestInput {
  SourceFile file;
  Manifest manifest;
  std::string sha256;
};

// Whether this process is rank 0's. Findings that change nothing are said once a job; errors by every process, whose
// files may stand on another machine.
[[nodiscard]] bool speaks_for_the_job();

// Opens weights for a manifest and prints what is found, but for warnings that were said of another source; the exit
// status that it calls for, 0 when they fit.
[[nodiscard]] int open_source(const std::string& path, const Manifest& manifest, const JobArguments& job,
                              WeightSource& source, const WeightSource* said = nullptr);

// The files that were opened for a job: those of the weights, and what stands beside them and says what they are.
[[nodiscard]] std::vector<std::string> files_of(const WeightSource& source);

// Throws where `output`, which the option `flag` names, cannot be written: it is one of the inputs, or standard output.
void check_output(std::string_view flag, const std::string& output, const std::vector<std::string>& inputs);

// The same for a folder of shards, which must have been written by this manifest if it says by which.
[[nodiscard]] int open_saved(const std::string& folder, const ManifestInput& input, const JobArguments& job,
                             WeightSource& source, const WeightSource* said = nullptr);

// Whether `path` is a folder that was saved by the job's own manifest, and each process may open the files of its own
// ranks alone: then `known` says what stands there. Prints what it lacks.
[[nodiscard]] bool find_own_shards(const std::string& path, const ManifestInput& input, const JobArguments& job,
                                   SavedFolder& known);

// Called by all ranks: opens them.
void open_together(Comm& comm, const SavedFolder& known, WeightSource& source);

// The shards of the ranks of this process, in the order of Comm::process. The first of its ranks fills them, and works
// on them; what is written here in a step is read by the others from the next one on.
using SharedShards = std::vector<ShardStore>;

// The shards that a rank works on: all of its process for the first of its ranks, none for the others.
[[nodiscard]] std::span<ShardStore> work_of(const Comm& comm, SharedShards& shared);

// This rank's own shards.
const ShardStore& shards_of(const Comm& comm, const SharedShards& shared);

// Fills the shards of this process. Called by all ranks. Throws what loading throws; TP8012 before anything is
// allocated, on every rank of the job.
[[nodiscard]] LoadResult load_together(Comm& comm, const Manifest& manifest, const WeightSource& source,
                                       const JobArguments& job, SharedShards& shared);

// How this rank shows how far the job is: rank 0 to people, or as lines where findings are.
[[nodiscard]] ProgressKind progress_of(const Comm& comm, const JobArguments& job);

// What ranks must agree on beside the manifest: the command, its options, and the weights as each found them.
[[nodiscard]] std::string agreement_of(std::string_view command, const WeightSource& weights);

// Runs `body` on every rank of the manifest's mesh and prints the fault; the exit status of the job. Ranks agree on
// manifest hash, program and command first. After the body every rank knows whether all of them succeeded.
[[nodiscard]] int run_job(const ManifestInput& input, const JobArguments& job, std::string_view command,
                          const RankBody& body);

// Runs a command: what it throws is a finding, with the manifest's name where it names no place.
[[nodiscard]] int run_command(const std::string& manifest, const JobArguments& job,
                              const std::function<int()>& command);

// Whether standard error is for people: summaries and bars beside the findings.
[[nodiscard]] bool speaks_to_people(const JobArguments& job);

// An object with what `write` puts into it, as a line on standard output: a command's result with --json.
void print_result(const std::function<void(JsonWriter& json)>& write);

// Seconds with so many digits as a clock has: microseconds.
void write_seconds(JsonWriter& json, double seconds);

// "2.0 GiB in 0.31 s, 6.9 GB/s"
[[nodiscard]] std::string speed_text(uint64_t bytes, double seconds);

}  // namespace tpplan
