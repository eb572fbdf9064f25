#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include "base/text.h"
#include "commands.h"
#include "job.h"
#include "shards/reshard.h"
#include "terminal.h"

namespace tpplan {

int cmd_reshard(const ReshardArguments& arguments, const JobArguments& job) {
  ManifestInput before, after;
  int status = read_manifest_file(arguments.before, before.file, before.manifest, before.sha256);
  if (status == 0) status = read_manifest_file(arguments.after, after.file, after.manifest, after.sha256);
  if (status != 0) return status;
  WeightSource saved, source;
  status = open_saved(arguments.from, before, job, saved);
  if (status != 0) return status;
  status = open_source(arguments.from, after.manifest, job, source, saved.warnings);
  if (status != 0) return status;
  return run_job(after, job, fmt::format("reshard from {}", before.sha256), [&](Comm& comm) {
    const ReshardResult result = reshard(comm, source, after.manifest, after.sha256, arguments.to, job.staging);
    if (!result.fault.empty())
      return comm.rank == comm.process.front() ? refuse(1, fmt::format("{}; the folder is not written", result.fault))
                                               : 1;
    std::vector<std::string> all;
    if (!comm.backend->gather_texts(comm, fmt::format("{} {}", result.read_bytes, result.written_bytes), all)) return 1;
    if (comm.rank != 0) return 0;
    const auto [read, written] = add_up(all);
    if (job.json)
      print(STDOUT_FILENO, fmt::format("{{\"read_bytes\": {}, \"written_bytes\": {}}}\n", read, written));
    else if (!job.quiet)
      print(STDERR_FILENO, fmt::format("{} read, {} written to {}\n", human_bytes(read), human_bytes(written),
                                       escape_for_terminal(arguments.to)));
    return 0;
  });
}

}  // namespace tpplan
