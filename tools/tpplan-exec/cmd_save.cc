#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <tuple>

#include "base/text.h"
#include "commands.h"
#include "exec/ranks/gather.h"
#include "exec/shards/save_shards.h"
#include "job.h"
#include "manifest/shardings_digest.h"
#include "terminal.h"

namespace tpplan {

namespace {

// Message with the bytes that a rank wrote.
struct RankSaves {
  uint64_t folder = 0, file = 0;
};
auto fields(RankSaves& bytes) { return std::tie(bytes.folder, bytes.file); }

void print_sums(const SaveArguments& arguments, const RankSaves& all, int ranks, const JobArguments& job) {
  if (job.json) {
    print_result([&](JsonWriter& json) {
      write_field(json, "folder_bytes", all.folder);
      write_field(json, "file_bytes", all.file);
    });
    return;
  }
  if (!prints_human(job)) return;
  if (!arguments.output.empty())
    print(STDERR_FILENO,
          fmt::format("{} written to {} by {}\n", human_bytes(all.folder), escape_for_terminal(arguments.output),
                      counted(static_cast<uint64_t>(ranks), "rank")));
  if (!arguments.consolidated.empty())
    print(STDERR_FILENO,
          fmt::format("{} written to {}\n", human_bytes(all.file), escape_for_terminal(arguments.consolidated)));
}

}  // namespace

int cmd_save(const SaveArguments& arguments, const JobArguments& job) {
  if (arguments.output.empty() && arguments.consolidated.empty())
    return usage_error("save requires -o or --consolidated");
  if (arguments.max_file_bytes != 0 && arguments.consolidated.empty())
    return usage_error("--max-file-size requires --consolidated");
  if (!arguments.expert_naming.empty() && arguments.consolidated.empty())
    return usage_error("--split-experts requires --consolidated");
  ManifestInput input;
  int status = read_manifest_file(arguments.manifest, input.file, input.manifest, input.sha256);
  if (status != 0) return status;
  WeightSource source;
  status = open_source(arguments.weights, input.manifest, job, source);
  if (status != 0) return status;
  std::vector<std::string> inputs = files_of(source);
  inputs.push_back(arguments.manifest);
  check_output("--consolidated", arguments.consolidated, inputs);
  SharedShards shared;
  return run_job(
      input, job,
      agreement_of(fmt::format("save to {} {} {}", arguments.output, arguments.consolidated, arguments.expert_naming),
                   source),
      [&](Comm& comm) {
        std::ignore = load_together(comm, input.manifest, source, job, shared);
        const ShardStore& store = shards_of(comm, shared);
        SaveOptions options{
            .path = arguments.output, .shardings_sha256 = shardings_sha256(input.manifest), .omitted = source.missing};
        RankSaves mine;
        if (!arguments.output.empty()) mine.folder = save_shards(comm, store, options);
        options.path = arguments.consolidated;
        options.max_file_bytes = arguments.max_file_bytes;
        options.expert_naming = arguments.expert_naming;
        if (!arguments.consolidated.empty()) mine.file = save_unsharded(comm, store, options);
        const RankSaves all = fold(comm, mine, [](RankSaves& sum, const RankSaves& rank, int) {
          sum.folder += rank.folder;
          sum.file += rank.file;
        });
        if (comm.rank == 0) print_sums(arguments, all, comm.world, job);
        return 0;
      });
}

}  // namespace tpplan
