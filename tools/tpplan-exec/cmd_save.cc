#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include "base/text.h"
#include "commands.h"
#include "job.h"
#include "shards/save_shards.h"
#include "terminal.h"

namespace tpplan {

namespace {

// What each rank wrote: "bytes of the folder, bytes of the file".
void print_result(const SaveArguments& arguments, const std::vector<std::string>& texts, const JobArguments& job) {
  const auto [folder, file] = add_up(texts);
  if (job.json) {
    print(STDOUT_FILENO, fmt::format("{{\"folder_bytes\": {}, \"file_bytes\": {}}}\n", folder, file));
    return;
  }
  if (job.quiet) return;
  if (!arguments.output.empty())
    print(STDERR_FILENO, fmt::format("{} written to {} by {}\n", human_bytes(folder),
                                     escape_for_terminal(arguments.output), counted(texts.size(), "rank")));
  if (!arguments.consolidated.empty())
    print(STDERR_FILENO,
          fmt::format("{} written to {}\n", human_bytes(file), escape_for_terminal(arguments.consolidated)));
}

}  // namespace

int cmd_save(const SaveArguments& arguments, const JobArguments& job) {
  if (arguments.output.empty() && arguments.consolidated.empty())
    return refuse(2, "save writes nothing without -o or --consolidated");
  ManifestInput input;
  int status = read_manifest_file(arguments.manifest, input.file, input.manifest, input.sha256);
  if (status != 0) return status;
  WeightSource source;
  status = open_source(arguments.weights, input.manifest, job, source);
  if (status != 0) return status;
  std::vector<std::string> inputs = files_of(source);
  inputs.push_back(arguments.manifest);
  if (const std::string fault = output_fault("--consolidated", arguments.consolidated, inputs); !fault.empty())
    return refuse(2, fault);
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
    if (!fault.empty())
      return comm.rank == comm.process.front()
                 ? refuse(1,
                          fmt::format("{}; {} is not written", fault, folder.fault.empty() ? "the file" : "the folder"))
                 : 1;
    std::vector<std::string> all;
    if (!comm.backend->gather_texts(comm, fmt::format("{} {}", folder.bytes, file.bytes), all)) return 1;
    if (comm.rank == 0) print_result(arguments, all, job);
    return 0;
  });
}

}  // namespace tpplan
