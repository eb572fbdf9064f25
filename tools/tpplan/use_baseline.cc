#include "use_baseline.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <filesystem>
#include <new>
#include <optional>
#include <system_error>
#include <tuple>

#include "base/path_status.h"
#include "base/read_file.h"
#include "base/text.h"
#include "inputs.h"
#include "render/render_parts.h"
#include "settings.h"
#include "timed_step.h"

namespace tpplan {
namespace {

// True, after reporting it, if the baseline would replace a non-empty file that is not a baseline.
bool replaces_other_file(const BaselineUse& use) {
  const PathStatus found = stat_path(use.path);
  if (!is_regular_file(found) || found.status.st_size == 0) return false;  // write_result reports other errors
  SourceFile file;
  Diagnostics diagnostics;
  Baseline replaced;
  if (read_input(use.path, kMaxBaselineBytes, file, diagnostics) && read_baseline(file, replaced, diagnostics))
    return false;
  std::ignore =
      reject_write(use.name, "the file exists and is not a baseline", "choose another file, or delete this one");
  return true;
}

// True, after reporting it, if the settings name a file outside of their project, also through a link.
bool leads_out(const CheckArguments& arguments, const BaselineUse& use) {
  if (!arguments.finds_baseline) return false;
  std::error_code failed;
  const std::filesystem::path root = std::filesystem::canonical(arguments.project.root, failed);
  const std::filesystem::path end =
      failed ? std::filesystem::path() : std::filesystem::weakly_canonical(resolve_links(use.path), failed);
  if (failed == std::errc::not_enough_memory) throw std::bad_alloc();
  if (!failed && is_within(end, root)) return false;
  std::ignore = reject_write(use.name, kLeadsOut, "set `baseline` to a file in the project");
  return true;
}

// Returns the owner of the file, or of the link to it, if that is another user.
std::optional<uid_t> foreign_owner(const std::string& path) {
  for (const PathStatus& found : {lstat_path(path), stat_path(path)}) {
    if (found.exists && !is_trusted_owner(found.status.st_uid)) return found.status.st_uid;
  }
  return std::nullopt;
}

// Returns the folder that contains the baseline if the settings name it; otherwise empty.
std::string folder_of(const CheckArguments& arguments) {
  return arguments.finds_baseline ? arguments.project.root : std::string();
}

}  // namespace

int prepare_baseline(const CheckArguments& arguments, const CommonArguments& common, BaselineUse& use) {
  use.name = arguments.baseline;
  use.is_written = arguments.write_baseline;
  if (use.name.empty())
    return use.is_written ? usage_error("--write-baseline: pass --baseline FILE, or set `baseline` in .tpplan.yaml")
                          : kExitFine;
  std::error_code error;
  use.path = std::filesystem::absolute(use.name, error).string();
  if (error == std::errc::not_enough_memory) throw std::bad_alloc();
  if (error) return usage_error(fmt::format("--baseline {}: {}", escape_for_terminal(use.name), error.message()));
  if (use.is_written) {
    std::vector<std::string> inputs = project_files(arguments.project);
    inputs.insert(inputs.end(), {arguments.inputs.model, arguments.inputs.plan});
    if (!arguments.run.empty()) inputs.push_back(arguments.run);
    for (const std::string& word : arguments.speeds) inputs.push_back(speed_path(word));
    const bool is_rejected =
        leads_out(arguments, use) || overwrites_input(use.path, inputs, common) || replaces_other_file(use);
    return is_rejected ? kExitUsage : kExitFine;
  }
  SourceFile file;
  Diagnostics diagnostics;
  const std::optional<uid_t> owner = arguments.finds_baseline ? foreign_owner(use.path) : std::nullopt;
  if (owner)
    report_foreign(file, "the baseline", *owner, "pass it with `--baseline FILE` if you trust it", diagnostics);
  else if (read_input(use.path, kMaxBaselineBytes, file, diagnostics, folder_of(arguments)))
    std::ignore = read_baseline(file, use.known, diagnostics);
  file.name = use.name;
  if (arguments.finds_baseline && !owner) hide_content(file.id, diagnostics);
  return print_diagnostics(diagnostics, sources_of(file), common);
}

KnownFilter baseline_filter(const BaselineUse& use) {
  return use.is_written ? KnownFilter{} : baseline_filter(use.known);
}

void take_known(BaselineUse& use, Session& session) {
  const Sources sources = sources_of(session);
  if (use.is_written) add_diagnostics(use.known, session.diagnostics, sources);
  const Diagnostics taken = remove_known(session.diagnostics, sources, use.known, use.still_reported);
  const DiagnosticCounts counts = counts_of(taken);
  use.taken.errors += counts.errors;
  use.taken.warnings += counts.warnings;
  if (session.compilation.is_checked) return;
  // Several errors of one phase can stop the check; the note names the last one.
  const auto last = std::find_if(taken.list.rbegin(), taken.list.rend(), [](const Diagnostic& d) {
    return d.severity == Severity::Error && !kind_of(d.code).has_no_sharding_effect;
  });
  if (last == taken.list.rend()) return;
  use.is_checked = false;
  if (use.is_written || has_errors(session.diagnostics)) return;
  Diagnostic& stop =
      report_message(session.diagnostics, Code::KnownErrorStopsCheck, last->span,
                     fmt::format("a known error in {} stops the check here: later phases are not checked",
                                 escape_for_terminal(use.name)),
                     last->help.empty() ? "fix the known error" : last->help);
  stop.notes.push_back({fmt::format("the known error: {} ({})", last->message, kind_of(last->code).id), {}});
  finish_diagnostics(session.diagnostics);
}

int finish_baseline(const BaselineUse& use, int status, std::string& note) {
  if (use.name.empty()) return status;
  const std::string name = escape_for_terminal(use.name);
  if (use.is_written) {
    if (status != kExitFine) {
      note += fmt::format("{} is unchanged: a baseline cannot contain errors in reading an input\n", name);
      return status;
    }
    if (!use.is_checked) note += "a known error stops the check: `tpplan check` reports TP4013 until it is fixed\n";
    const int written = write_result(use.path, [&](const Sink& sink) { return sink(to_json(use.known)); });
    if (written == kExitFine)
      note += fmt::format("{} written to {}\n", counted(use.known.findings.size(), "diagnostic"), name);
    return written;
  }
  if (const std::string counts = to_text(use.taken); !counts.empty())
    note += fmt::format("{} of {} not shown\n", counts, name);
  const size_t gone = use.known.findings.size() - use.still_reported.size();
  if (gone > 0 && status == kExitFine && use.is_checked)  // errors can hide later diagnostics
    note += fmt::format("{} of {} no longer reported: --write-baseline removes {}\n", counted(gone, "diagnostic"), name,
                        gone == 1 ? "it" : "them");
  return status;
}

}  // namespace tpplan
