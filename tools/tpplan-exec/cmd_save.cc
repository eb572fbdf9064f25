#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include "base/write_file.h"
#include "commands.h"
#include "job.h"
#include "shards/save_shards.h"
#include "terminal.h"

namespace tpplan {

int cmd_save(const SaveArguments& arguments, const JobArguments& job) {
  if (arguments.output.empty() && arguments.consolidated.empty()) return refuse(2, "save writes nothing without -o or --consolidated");
  ManifestInput input;
  int status = read_manifest_file(arguments.manifest, input.file, input.manifest, input.sha256);
  if (status != 0) return status;
  WeightSource source;
  status = open_source(arguments.weights, input.manifest, job, source);
  if (status != 0) return status;
  std::vector<std::string> inputs{arguments.manifest};
  for (const SourceFileHandle& file : source.files) inputs.push_back(file.path);
  if (!arguments.consolidated.empty() && is_same_file(arguments.consolidated, inputs)) return refuse(2, "--consolidated names one of the inputs; nothing is written");
  SharedShards shared;
  return run_job(input, job, "save", [&](Comm& comm) {
    const ShardStore* loaded = load_once(comm, input.manifest, source, job, shared);
    if (loaded == nullptr) return kShortOfMemory;
    const ShardStore& store = *loaded;
    SaveOptions options{.path = arguments.output, .manifest_sha256 = input.sha256, .left_out = source.missing};
    SaveResult folder, file;
    if (!arguments.output.empty()) folder = save_shards(comm, store, options);
    options.path = arguments.consolidated;
    if (folder.fault.empty() && !arguments.consolidated.empty()) file = save_consolidated(comm, store, options);
    const std::string& fault = folder.fault.empty() ? file.fault : folder.fault;
    if (!fault.empty()) return comm.rank == comm.process.front() ? refuse(1, fmt::format("{}; {} is not written", fault, folder.fault.empty() ? "the file" : "the folder")) : 1;
    if (comm.rank != 0) return 0;
    if (job.json) print(STDOUT_FILENO, fmt::format("{{\"folder_bytes_of_rank_0\": {}, \"file_bytes_of_rank_0\": {}}}\n", folder.bytes, file.bytes));
    return 0;
  });
}

}  // namespace tpplan
