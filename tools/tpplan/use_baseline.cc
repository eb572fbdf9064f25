#include "use_baseline.h"

#include <spdlog/fmt/fmt.h>

#include <filesystem>
#include <new>
#include <system_error>

#include "base/text.h"
#include "inputs.h"
#include "render/render_parts.h"

namespace tpplan {

int open_baseline(const CheckArguments& arguments, const CommonArguments& common, BaselineUse& use) {
  use.name = arguments.baseline;
  use.is_written = arguments.write_baseline;
  if (use.name.empty())
    return use.is_written
               ? usage_error("--write-baseline: name the file with --baseline FILE, or as `baseline` in .tpplan.yaml")
               : kExitFine;
  std::error_code error;
  use.path = std::filesystem::absolute(use.name, error).string();
  if (error == std::errc::not_enough_memory) throw std::bad_alloc();
  if (error) return usage_error(fmt::format("--baseline {}: {}", escape_for_terminal(use.name), error.message()));
  if (use.is_written) {
    const std::vector<std::string> inputs = {arguments.inputs.model, arguments.inputs.plan};
    return overwrites_input(use.path, inputs, common) ? kExitUsage : kExitFine;
  }
  SourceFile file;
  Diagnostics diagnostics;
  if (read_input(use.path, kMaxBaselineBytes, file, diagnostics))
    std::ignore = read_baseline(file, use.known, diagnostics);
  file.name = use.name;
  return print_findings(diagnostics, sources_of(file), common);
}

void take_known(BaselineUse& use, Session& session) {
  const Sources sources = sources_of(session);
  if (use.is_written) add_findings(use.known, session.diagnostics, sources);
  const FindingCounts taken = remove_known(session.diagnostics, sources, use.known, use.met);
  use.is_whole = use.is_whole && (taken.errors == 0 || session.compilation.reached == Phase::Manifest);
  use.taken.errors += taken.errors;
  use.taken.warnings += taken.warnings;
}

int close_baseline(const BaselineUse& use, int status, std::string& said) {
  if (use.name.empty()) return status;
  const std::string name = escape_for_terminal(use.name);
  if (!use.is_whole)
    said += "known errors keep what follows from them from being judged: it is found when they are mended\n";
  if (use.is_written) {
    if (status != kExitFine) {
      said += fmt::format("{} is left as it is: what keeps an input from being read cannot be a known finding\n", name);
      return status;
    }
    const int written = write_result(use.path, [&](const Sink& sink) { return sink(to_json(use.known)); });
    if (written == kExitFine)
      said += fmt::format("{} written to {}\n", counted(use.known.findings.size(), "finding"), name);
    return written;
  }
  if (const std::string counts = to_text(use.taken); !counts.empty())
    said += fmt::format("{} of {} not shown\n", counts, name);
  const size_t gone = use.known.findings.size() - use.met.size();
  if (gone > 0 && status == kExitFine && use.is_whole)  // behind an error nobody has looked
    said += fmt::format("{} of {} no longer there: --write-baseline leaves {} out\n", counted(gone, "finding"), name,
                        gone == 1 ? "it" : "them");
  return status;
}

}  // namespace tpplan
