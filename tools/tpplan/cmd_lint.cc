#include <unistd.h>

#include "commands.h"
#include "match/lint_dialects.h"

namespace tpplan {

int cmd_lint(const InputArguments& inputs, const CommonArguments& common) {
  Session session;
  compile_session(session, inputs, Phase::Matches, common);
  if (session.usage) return kExitUsage;
  const bool linted = !has_errors(session.diagnostics);
  if (linted) lint_dialects(session.compilation.plan, session.compilation.graph, session.diagnostics);
  const bool all_alike = session.diagnostics.list.empty();
  judge_session(session, inputs, [&](Code code) { return linted && code == kLintCode; });
  const RenderOptions look = render_options(STDOUT_FILENO, common.color);
  std::string out = render_human(session.diagnostics, sources_of(session), look);
  if (out.empty() && all_alike && !common.quiet) out = "every key means the same in every dialect\n";
  return print(STDOUT_FILENO, out, {.color = look.color}) ? exit_status(session.diagnostics) : kExitUsage;
}

}  // namespace tpplan
