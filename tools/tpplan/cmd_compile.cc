#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include "base/text.h"
#include "commands.h"
#include "inputs.h"
#include "model/print_graph.h"
#include "trace.h"

namespace tpplan {
namespace {

// Prints with -v how many parameters are too small for FSDP. This is not worth a warning.
void trace_fsdp(const Compilation& c, bool verbose) {
  if (!verbose || !c.plan.fsdp) return;
  size_t small = 0;
  for (const ParamSharding& p : c.plan_result.shardings.params) small += p.fsdp == FsdpDecision::TooSmall;
  trace(true, "fsdp",
        fmt::format("{} of at most {} elements are not sharded by fsdp", counted(small, "parameter"),
                    c.plan.fsdp->min_weight_size));
}

// Prints the result of a phase, with control characters of names escaped.
bool print_phase_result(const Compilation& compilation, Phase phase, const Sink& sink) {
  if (phase == Phase::Graph)
    return print_graph(compilation.graph, [&sink](std::string_view chunk) { return sink(escape_lines(chunk)); });
  return sink(escape_lines(dump(compilation, phase)));
}

}  // namespace

int cmd_compile(const CompileArguments& arguments, const CommonArguments& common) {
  Phase last = Phase::Manifest;
  if (!arguments.print.empty() && !find_phase(arguments.print, last)) {
    return usage_error(fmt::format(
        "--print {}: expected a phase: model, graph, plan, matches, shardings, boundaries, operations or manifest",
        escape_for_terminal(arguments.print)));
  }
  if (overwrites_input(arguments.output, {arguments.inputs.model, arguments.inputs.plan}, common)) return kExitUsage;
  Session session;
  run_session(session, arguments.inputs, last, common);
  print_diagnostics(STDERR_FILENO, session.diagnostics, sources_of(session), common.color);
  if (session.usage) return kExitUsage;
  const int status = exit_status(session.diagnostics);
  if (status != kExitFine) {
    if (!common.quiet)
      print(STDERR_FILENO, fmt::format("{}; no manifest is written\n", count_diagnostics(session.diagnostics)));
    return status;
  }
  trace_fsdp(session.compilation, common.verbose);
  const int written = write_result(arguments.output, [&](const Sink& sink) {
    return last == Phase::Manifest ? write_manifest(session.compilation, sink)
                                   : print_phase_result(session.compilation, last, sink);
  });
  if (written != kExitFine) return written;
  trace(common.verbose, "write", arguments.output);
  if (!common.quiet && last == Phase::Manifest) print(STDERR_FILENO, summary(session.compilation, session.diagnostics));
  return kExitFine;
}

}  // namespace tpplan
