#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>

#include "base/text.h"
#include "base/unified_diff.h"
#include "base/write_file.h"
#include "commands.h"
#include "inputs.h"
#include "plan/format_plan.h"
#include "text/yaml_tree.h"

namespace tpplan {
namespace {

// Reads and formats one plan. Returns the exit status, but never 1 for wrong content, because 1 means that a plan would
// change.
int format_file(const std::string& path, SourceFile& file, std::string& formatted, const CommonArguments& common) {
  Diagnostics diagnostics;
  const bool good =
      read_input(path, YamlLimits{}.bytes, file, diagnostics) && format_plan(file, formatted, diagnostics);
  const int status = print_diagnostics(diagnostics, sources_of(file), common);
  return good ? kExitFine : std::max(kExitUsage, status);
}

// Writes one formatted plan, or prints its changes, as the arguments specify.
int deliver(const std::string& path, const SourceFile& file, const std::string& formatted,
            const FmtArguments& arguments, const CommonArguments& common) {
  const bool changes = file.text != formatted;
  if (arguments.diff) {
    const std::string name = escape_for_terminal(file.name);
    return !print(STDOUT_FILENO, unified_diff(name, name, file.text, formatted), {.is_patch = true}) ? kExitUsage
           : changes                                                                                 ? kExitContent
                                                                                                     : kExitFine;
  }
  if (arguments.check) {
    if (changes && !print(STDOUT_FILENO, escape_for_terminal(file.name) + "\n")) return kExitUsage;
    return changes ? kExitContent : kExitFine;
  }
  const bool in_place = arguments.output.empty() && path != "-";
  if (in_place && !changes) return kExitFine;
  const Producer produce = [&formatted](const Sink& sink) { return sink(formatted); };
  const std::string& target = in_place ? path : arguments.output.empty() ? "-" : arguments.output;
  const std::string fault = in_place ? rewrite_file(target, file.text, produce) : write_output(target, produce);
  if (!fault.empty()) return reject_write(target, fault);
  if (!in_place || common.quiet || print(STDOUT_FILENO, escape_for_terminal(path) + ": formatted\n")) return kExitFine;
  const std::string undone = rewrite_file(path, formatted, [&file](const Sink& sink) { return sink(file.text); });
  print(STDERR_FILENO, fmt::format("{} is {}: cannot print the status line\n", escape_for_terminal(path),
                                   undone.empty() ? "unchanged" : "formatted"));
  return kExitUsage;
}

}  // namespace

int cmd_fmt(const FmtArguments& arguments, const CommonArguments& common) {
  const std::vector<std::string>& plans = arguments.plans;
  if (std::count(plans.begin(), plans.end(), "-") > 1)
    return usage_error("`-` occurs twice: standard input can be read only once");
  if (!arguments.output.empty() && (arguments.check || arguments.diff))
    return usage_error("--output: --check and --diff write no file");
  if (!arguments.output.empty() && plans.size() != 1)
    return usage_error("--output expects one plan; omit it to format each plan in place");
  if (!arguments.output.empty() &&
      overwrites_input(arguments.output, plans, common, "omit --output to format a plan in place"))
    return kExitUsage;
  int status = kExitFine;
  size_t changed = 0;
  for (const std::string& path : plans) {
    SourceFile file;
    std::string formatted;
    int one = format_file(path, file, formatted, common);
    if (one == kExitFine) one = deliver(path, file, formatted, arguments, common);
    changed += one == kExitContent;
    status = std::max(status, one);
  }
  if (changed > 0 && !common.quiet)
    print(STDERR_FILENO, fmt::format("{} of {} would change\n", changed, counted(plans.size(), "plan")));
  return status;
}

}  // namespace tpplan
