#include "report_errors.h"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/long_calls.h"
#include "exec/ranks/end_process.h"
#include "render/render_parts.h"
#include "terminal.h"

namespace tpplan {
namespace {

// Diagnostics of this process on standard error.
struct Findings {
  std::mutex mutex;
  std::string format{kHumanFormat};
  std::vector<std::string> lines;  // only with format "json"
  DiagnosticCounts counts;
  bool (*is_speaker)() = nullptr;
  std::optional<bool> is_reporter_known;  // cached result of is_speaker
};

Findings& findings() {
  static Findings all;
  return all;
}

bool is_printed(bool is_error) {
  Findings& all = findings();
  const std::lock_guard lock(all.mutex);
  if (!is_error || all.is_speaker == nullptr || all.format == "json") return true;
  if (!all.is_reporter_known) all.is_reporter_known = all.is_speaker();
  return *all.is_reporter_known;
}

// Returns the rank and step of this process while errors are local to it, before the ranks have connected; otherwise
// rank -1.
CallPlace local_error_place() {
  Findings& all = findings();
  const std::lock_guard lock(all.mutex);
  return all.is_speaker == nullptr ? CallPlace{} : call_place();
}

void add_lines(const std::string& lines, const DiagnosticCounts& counts) {
  Findings& all = findings();
  const std::lock_guard lock(all.mutex);
  if (all.format == "jsonl") {
    print_raw(STDERR_FILENO, lines);
    return;
  }
  for (size_t begin = 0; begin < lines.size();) {
    const size_t end = lines.find('\n', begin);
    all.lines.push_back(lines.substr(begin, end - begin));
    begin = end + 1;
  }
  all.counts.errors += counts.errors;
  all.counts.warnings += counts.warnings;
}

// Reports the fault and completes the JSON document, if any, before an immediate exit (end_process).
void report_last_error(const Fault& fault) {
  report(fault);
  finish_report();
}

}  // namespace

void set_error_format(std::string_view format) {
  findings().format = format;
  set_fault_reporter(report_last_error);
}

void report_errors_if(bool (*is_speaker)()) {
  Findings& all = findings();
  const std::lock_guard lock(all.mutex);
  all.is_speaker = is_speaker;
  all.is_reporter_known.reset();
}

int report(const Fault& found, std::string_view place) {
  const int status = exit_status(found);
  if (!is_printed(status != 0)) return status;
  Fault fault = found;
  if (const CallPlace speaker = local_error_place(); status != 0 && fault.rank < 0 && speaker.rank >= 0) {
    fault.rank = speaker.rank;
    fault.step = speaker.step;
  }
  const RenderOptions look = render_options(STDERR_FILENO, ColorChoice::Auto);
  if (findings().format == kHumanFormat)
    print(STDERR_FILENO, render_human(fault, place.empty() ? "tpplan-exec" : place, look), {.color = look.color});
  else
    add_lines(render_jsonl(fault, place),
              status == 0 ? DiagnosticCounts{.warnings = 1} : DiagnosticCounts{.errors = 1});
  return status;
}

int report(Diagnostics& diagnostics, const Sources& sources) {
  finish_diagnostics(diagnostics);
  if (!is_printed(exit_status(diagnostics) != 0)) return exit_status(diagnostics);
  const auto error = std::ranges::find(diagnostics.list, Severity::Error, &Diagnostic::severity);
  if (const CallPlace speaker = local_error_place(); speaker.rank >= 0 && error != diagnostics.list.end())
    error->notes.push_back({.text = fmt::format("rank {} failed at {}", speaker.rank, speaker.step)});
  if (findings().format == kHumanFormat)
    print_diagnostics(STDERR_FILENO, diagnostics, sources, ColorChoice::Auto);
  else
    add_lines(render_jsonl(diagnostics, sources), counts_of(diagnostics));
  return exit_status(diagnostics);
}

void finish_report() {
  Findings& all = findings();
  const std::lock_guard lock(all.mutex);
  if (all.format == "json") print_raw(STDERR_FILENO, render_document(all.lines, all.counts));
}

}  // namespace tpplan
