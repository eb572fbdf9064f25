// Runs the manifest's redistributions and matmuls on test data, and reports wrong results and throughput.
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>

#include "base/text.h"
#include "commands.h"
#include "exec/run/norm_gradients.h"
#include "exec/run/print_schedule.h"
#include "job.h"
#include "terminal.h"
#include "write_outcome.h"

namespace tpplan {
namespace {

bool run_all(Comm& comm, const Manifest& manifest, const RunArguments& arguments, Outcome& outcome) {
  outcome.device = comm.device->name;
  if (!run_schedule(comm, manifest.mesh, outcome.schedule, {arguments.iterations, arguments.warmup},
                    outcome.redistributions))
    return false;
  outcome.results.resize(outcome.matmuls.size());
  for (size_t i = 0; i < outcome.matmuls.size(); ++i) {
    if (!run_module_matmul(comm, manifest, outcome.matmuls[i], arguments.tokens, outcome.results[i])) return false;
  }
  combine(comm, outcome);
  return true;
}

// Returns the error about results that differ from the unsharded ones.
Fault wrong_result_error(const Outcome& outcome) {
  const auto entry =
      std::ranges::find_if(outcome.redistributions.entries, [](const EntryResult& e) { return e.wrong != 0; });
  const auto matmul = std::ranges::find_if(outcome.results, [](const MatmulResult& r) { return is_wrong(r); });
  const std::string first =
      entry != outcome.redistributions.entries.end()
          ? outcome.schedule[static_cast<size_t>(entry - outcome.redistributions.entries.begin())].path
          : outcome.matmuls[static_cast<size_t>(matmul - outcome.results.begin())].path;
  return {.code = Code::ResultsDiffer,
          .message = fmt::format("{} of {} redistributions and matmuls differ from the unsharded result, first at `{}`",
                                 count_wrong_steps(outcome), outcome.schedule.size() + outcome.results.size(),
                                 escape_for_terminal(first)),
          .help = "fix the plan's layouts at the entries marked WRONG in the table"};
}

}  // namespace

int cmd_run(const RunArguments& arguments, const JobArguments& job) {
  ManifestInput input;
  if (const int status = read_manifest_file(arguments.manifest, input.file, input.manifest, input.sha256); status != 0)
    return status;
  const Manifest& manifest = input.manifest;
  Outcome plan{.schedule = build_schedule(manifest, {.tokens = arguments.tokens}), .matmuls = list_matmuls(manifest)};
  if (arguments.print == "schedule") return print(STDOUT_FILENO, print_schedule(plan.schedule, manifest.mesh)) ? 0 : 2;
  const std::string command = fmt::format("run --iterations {} --warmup {} --tokens {}", arguments.iterations,
                                          arguments.warmup, arguments.tokens);
  const std::optional<Fault> unreduced = find_unreduced_norm(manifest);
  return run_job(input, job, command, [&](Comm& comm) {
    if (unreduced) throw Fault(*unreduced);
    Outcome outcome = plan;
    throw_if_failed(comm, run_all(comm, manifest, arguments, outcome));
    if (comm.rank != 0) return count_wrong_steps(outcome) == 0 ? 0 : 1;
    const std::string head = fmt::format("{} on {}: {} ranks, {} on {}\n\n", escape_for_terminal(manifest.model_name),
                                         to_text(manifest.mesh), comm.world, comm.backend->name, comm.device->name);
    const std::string text =
        (job.quiet ? "" : head + redistributions_text(manifest, outcome) + matmuls_text(manifest, outcome)) +
        summary_text(outcome);
    if (job.json ? !print_raw(STDOUT_FILENO, outcome_json(manifest, outcome, job.backend))
                 : !print(STDOUT_FILENO, text))
      return 2;
    return count_wrong_steps(outcome) == 0 ? 0 : report(wrong_result_error(outcome), input.file.name);
  });
}

}  // namespace tpplan
