#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <tuple>

#include "base/text.h"
#include "commands.h"
#include "job.h"
#include "ranks/gather.h"
#include "shards/reshard.h"
#include "terminal.h"

namespace tpplan {
namespace {

struct RankMoves {
  uint64_t read = 0, written = 0;
};
auto members(RankMoves& bytes) { return std::tie(bytes.read, bytes.written); }

}  // namespace

int cmd_reshard(const ReshardArguments& arguments, const JobArguments& job) {
  ManifestInput before, after;
  int status = read_manifest_file(arguments.before, before.file, before.manifest, before.sha256);
  if (status == 0) status = read_manifest_file(arguments.after, after.file, after.manifest, after.sha256);
  if (status != 0) return status;
  WeightSource saved, source;
  status = open_saved(arguments.from, before, job, saved);
  if (status != 0) return status;
  status = open_source(arguments.from, after.manifest, job, source, &saved);
  if (status != 0) return status;
  return run_job(after, job, agreement_of(fmt::format("reshard from {} to {}", before.sha256, arguments.to), source),
                 [&](Comm& comm) {
                   const ReshardResult result =
                       reshard(comm, source, after.manifest, after.sha256, arguments.to, job.staging);
                   uint64_t read = 0, written = 0;
                   for (const RankMoves& rank : gather(comm, RankMoves{result.read_bytes, result.written_bytes})) {
                     read += rank.read;
                     written += rank.written;
                   }
                   if (comm.rank != 0) return 0;
                   if (job.json)
                     print_result([&](JsonWriter& json) {
                       write_member(json, "read_bytes", read);
                       write_member(json, "written_bytes", written);
                     });
                   else if (speaks_to_people(job))
                     print(STDERR_FILENO, fmt::format("{} read, {} written to {}\n", human_bytes(read),
                                                      human_bytes(written), escape_for_terminal(arguments.to)));
                   return 0;
                 });
}

}  // namespace tpplan
