#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include "base/text.h"
#include "commands.h"
#include "render/formats.h"

namespace tpplan {
namespace {

// The input that comes from standard input, or nullptr.
SourceFile* stdin_file(Session& session, const InputArguments& inputs) {
  return inputs.model == "-" ? &session.model : inputs.plan == "-" ? &session.plan : nullptr;
}

std::string summary_of(const Session& session) {
  if (exit_status(session.diagnostics) == kExitFine) return summary(session.compilation, session.diagnostics);
  return count_findings(session.diagnostics) + "\n";
}

}  // namespace

int cmd_check(const CheckArguments& arguments, const CommonArguments& common) {
  Session session;
  const Format* format = find_format(arguments.format);
  if (format == nullptr) {
    const std::string names = join(format_names(), ", ");
    return usage_error(fmt::format("--format {}: formats are {}", escape_for_terminal(arguments.format), names));
  }
  SourceFile* from_stdin = stdin_file(session, arguments.inputs);
  if (!arguments.stdin_filename.empty() && from_stdin == nullptr) {
    return usage_error("--stdin-filename: neither the model nor the plan is `-`");
  }
  run_session(session, arguments.inputs, Phase::Manifest, common);
  if (session.usage) return kExitUsage;
  if (!arguments.stdin_filename.empty()) from_stdin->name = arguments.stdin_filename;
  std::string out = format->render({.diagnostics = session.diagnostics,
                                    .sources = sources_of(session),
                                    .look = render_options(STDOUT_FILENO, common.color),
                                    .tool = kToolVersion,
                                    .page = embedded_page});
  if (format->for_people && !common.quiet) out += summary_of(session);
  return print(STDOUT_FILENO, out) ? exit_status(session.diagnostics) : kExitUsage;
}

}  // namespace tpplan
