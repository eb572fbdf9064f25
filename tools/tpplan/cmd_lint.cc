#include <unistd.h>

#include "commands.h"
#include "match/lint_dialects.h"

namespace tpplan {

int cmd_lint(const InputArguments& inputs, const CommonArguments& common) {
  Session session;
  run_session(session, inputs, Phase::Matches, common);
  if (session.usage) return kExitUsage;
  if (!has_errors(session.diagnostics)) {
    lint_dialects(session.compilation.plan, session.compilation.graph, session.diagnostics);
    finish_diagnostics(session.diagnostics);
  }
  std::string out = render_human(session.diagnostics, sources_of(session), render_options(STDOUT_FILENO, common.color));
  if (out.empty() && !common.quiet) out = "every key means the same in every dialect\n";
  return print(STDOUT_FILENO, out) ? exit_status(session.diagnostics) : kExitUsage;
}

}  // namespace tpplan
