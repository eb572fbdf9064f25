#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include "base/text.h"
#include "base/write_file.h"
#include "commands.h"
#include "diff/diff_manifest.h"
#include "inputs.h"
#include "report/render_html.h"
#include "timed_step.h"

namespace tpplan {
namespace {

// Reads a manifest and prints its diagnostics. Returns the exit status.
int read_reported(const std::string& path, SourceFile& file, Manifest& manifest, const CommonArguments& common) {
  Diagnostics diagnostics;
  manifest = read_manifest_input(path, file, diagnostics);
  return print_diagnostics(diagnostics, sources_of(file), common);
}

}  // namespace

int reject_overflow(std::string_view manifest) {
  print(STDERR_FILENO, fmt::format("{}: error[TP9001]: the number of bytes on a rank exceeds 64 bits\n",
                                   escape_for_terminal(manifest)));
  return kExitInternal;
}

int cmd_report(const ReportArguments& arguments, const CommonArguments& common) {
  const bool compares = !arguments.against.empty();
  if (arguments.manifest == "-" && arguments.against == "-")
    return usage_error("only one of the manifests can be standard input");
  std::vector<std::string> inputs{arguments.manifest};
  if (compares) inputs.push_back(arguments.against);
  for (const std::string& word : arguments.speeds) inputs.push_back(speed_path(word));
  if (overwrites_input(arguments.output, inputs, common)) return kExitUsage;
  SourceFile file, old_file;
  Manifest manifest, old_manifest;
  if (const int status = read_reported(arguments.manifest, file, manifest, common); status != kExitFine) return status;
  if (compares) {
    if (const int status = read_reported(arguments.against, old_file, old_manifest, common); status != kExitFine)
      return status;
  }
  const ManifestMeasure measure = measure_manifest(manifest, *find_recipe(arguments.recipe));
  if (measure.overflow) return reject_overflow(arguments.manifest);
  ManifestDiff diff;
  std::optional<ReportAgainst> against;
  if (compares) {
    diff = diff_manifests(old_manifest, manifest);
    against = ReportAgainst{.manifest = &old_manifest, .diff = &diff};
  }
  Diagnostics diagnostics;
  std::vector<SpeedFile> speeds;
  std::optional<TimedStep> timed, old_timed;
  if (!arguments.speeds.empty() && read_speed_files(arguments.speeds, 1, speeds, diagnostics)) {
    timed = time_manifest(manifest, speeds, diagnostics);
    if (timed && compares) old_timed = time_manifest(old_manifest, speeds, diagnostics);
  }
  std::vector<const SourceFile*> files;
  for (const SpeedFile& speed : speeds) files.push_back(&speed.file);
  if (const int status = print_diagnostics(diagnostics, sources_of(files), common); status != kExitFine) return status;
  if (!arguments.speeds.empty() && !timed)
    print(STDERR_FILENO, fmt::format("{}: the time of a step is unknown: the manifest lists no operations\n",
                                     escape_for_terminal(arguments.manifest)));
  std::optional<ReportTime> step;
  if (timed)
    step.emplace(
        ReportTime{.time = timed->time, .topology = timed->topology, .before = old_timed ? &old_timed->time : nullptr});
  return write_result(arguments.output,
                      [&](const Sink& sink) { return render_html(manifest, measure, against, step, sink); });
}

}  // namespace tpplan
