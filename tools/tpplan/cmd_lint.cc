#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>

#include "base/text.h"
#include "commands.h"
#include "resolve/match/lint_dialects.h"

namespace tpplan {
namespace {

// Returns the requested dialects (default: those that accept the keys unchanged).
std::vector<const DialectRow*> dialects_of(const LintArguments& arguments, const TpPlan& plan) {
  if (arguments.dialects.empty()) return dialects_with_same_keys(plan);
  std::vector<const DialectRow*> requested;
  for (const DialectRow* row : dialect_table()) {
    if (std::ranges::find(arguments.dialects, row->name) != arguments.dialects.end()) requested.push_back(row);
  }
  return requested;
}

}  // namespace

int cmd_lint(const LintArguments& arguments, const CommonArguments& common) {
  Session session;
  compile_session(session, arguments.inputs, Phase::Matches, common);
  if (session.usage) return kExitUsage;
  const TpPlan& plan = session.compilation.plan;
  const bool linted = !has_errors(session.diagnostics);
  const std::vector<const DialectRow*> dialects = dialects_of(arguments, plan);
  for (const DialectRow* row : dialects) {
    if ((row->keys == KeySyntax::Names) != (plan.dialect->keys == KeySyntax::Names) && linted)
      return usage_error(
          fmt::format("--dialect {}: cannot compare `{}` and `{}`: keys are paths in one, names of dims in the other",
                      row->name, plan.dialect->name, row->name));
  }
  if (linted) lint_dialects(plan, session.compilation.graph, dialects, session.diagnostics);
  const bool has_no_diagnostic = session.diagnostics.list.empty();
  check_session(session, arguments.inputs, [&](Code code) { return linted && code == kLintCode; });
  const RenderOptions look = render_options(STDOUT_FILENO, common.color);
  std::string out = render_human(session.diagnostics, sources_of(session), look);
  if (out.empty() && has_no_diagnostic && !common.quiet) {
    std::vector<std::string> names;
    for (const DialectRow* row : dialects) names.emplace_back(row->name);
    out = fmt::format("every key means the same in {}\n", join(names, ", "));
  }
  return print(STDOUT_FILENO, out, {.color = look.color}) ? exit_status(session.diagnostics) : kExitUsage;
}

}  // namespace tpplan
