// Common parts of the commands that load or move weights: their inputs, the ranks' shards, and the end of the job.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/source_file.h"
#include "commands.h"
#include "exec/ranks/launch.h"
#include "exec/shards/load_shards.h"
#include "exec/shards/open_weights.h"
#include "exec/shards/saved_source.h"
#include "exec/shards/shard_store.h"
#include "manifest/manifest.h"
#include "text/json_writer.h"

namespace tpplan {

struct ManifestInput {
  SourceFile file;
  Manifest manifest;
  std::string sha256;
};

// True if this process is rank 0. Only rank 0 prints warnings. Every process checks and reports errors, because its
// files may be on another machine.
[[nodiscard]] bool reports_for_job();

// Opens weights for a manifest and prints their diagnostics, except warnings that `reported` has too. Returns the exit
// status, 0 if the weights match the manifest.
[[nodiscard]] int open_source(const std::string& path, const Manifest& manifest, const JobArguments& job,
                              WeightSource& source, const WeightSource* reported = nullptr);

// Returns the files that were opened for the weights, including the index and the note of a folder of shards.
[[nodiscard]] std::vector<std::string> files_of(const WeightSource& source);

// Throws if the output of option `flag` is standard output or one of the inputs.
void check_output(std::string_view flag, const std::string& output, const std::vector<std::string>& inputs);

inline constexpr std::string_view kHowToReshard =
    "pass the manifest that it was saved with, or convert the shards with `tpplan-exec reshard`";

// Opens a folder of shards like open_source. Throws TP8030, with this help, if the folder's note has other shardings
// than the manifest (manifest/shardings_digest.h).
[[nodiscard]] int open_saved(const std::string& folder, const ManifestInput& input, const JobArguments& job,
                             WeightSource& source, const WeightSource* reported = nullptr,
                             std::string_view help = kHowToReshard);

// True if `path` is a folder that was saved with the job's manifest and each process needs only the files of its ranks.
// `known` then describes the folder. Prints a warning for missing buffers. False with --backend local.
[[nodiscard]] bool find_local_shards(const std::string& path, const ManifestInput& input, const JobArguments& job,
                                     SavedFolder& known);

// Opens the shards of this node's ranks in a known folder. Every rank must call it.
void open_on_all_ranks(Comm& comm, const SavedFolder& known, WeightSource& source);

// Shards of the ranks of this process, in the order of Comm::process. Only the first of these ranks writes them; the
// others may read them from the next step on.
using SharedShards = std::vector<ShardStore>;

// Returns the shards that a rank works on: all shards of the process for its first rank, none for the other ranks.
[[nodiscard]] std::span<ShardStore> work_of(const Comm& comm, SharedShards& shared);

// Returns the shards of this rank.
const ShardStore& shards_of(const Comm& comm, const SharedShards& shared);

// Allocates and fills the shards of this process. Every rank must call it. Throws TP8012 on every rank, before anything
// is allocated, if memory is too small.
[[nodiscard]] LoadResult load_together(Comm& comm, const Manifest& manifest, const WeightSource& source,
                                       const JobArguments& job, SharedShards& shared);

// Returns how this rank reports progress: rank 0 with a bar or JSON Lines, depending on the format; the other ranks not
// at all.
[[nodiscard]] ProgressKind progress_of(const Comm& comm, const JobArguments& job);

// Returns the text that all ranks must agree on besides the manifest: the command and the identity of the weights.
[[nodiscard]] std::string agreement_of(std::string_view command, const WeightSource& weights);

// Executes `body` on every rank of the manifest's mesh, prints the fault of the job and returns the exit status. The
// ranks first compare manifest hash, program version and command. At the end every rank knows if all have succeeded.
[[nodiscard]] int run_job(const ManifestInput& input, const JobArguments& job, std::string_view command,
                          const RankBody& body);

// Executes a command and returns the exit status. An exception is reported with the manifest's path, if it has no
// place.
[[nodiscard]] int run_command(const std::string& manifest, const JobArguments& job,
                              const std::function<int()>& command);

// True if summaries and progress bars are printed on standard error.
[[nodiscard]] bool prints_human(const JobArguments& job);

// Prints one JSON object with the fields that `write` adds, on one line of standard output: the result of a command
// with --json.
void print_result(const std::function<void(JsonWriter& json)>& write);

// Writes the field "seconds" with six decimals.
void write_seconds(JsonWriter& json, double seconds);

// Returns a text like "2.0 GiB in 0.31 s, 6.9 GB/s".
[[nodiscard]] std::string speed_text(uint64_t bytes, double seconds);

}  // namespace tpplan
