#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>

#include "base/text.h"
#include "base/write_file.h"
#include "commands.h"
#include "cost/check_run.h"
#include "diff/diff_manifest.h"
#include "draw_step.h"
#include "inputs.h"
#include "report/render_html.h"
#include "suggest/price.h"
#include "timed_step.h"

namespace tpplan {
namespace {

// A plan of the report: its manifest, and its step if there is a run.
struct ReportSide {
  SourceFile file;  // of a manifest
  Session session;  // of a model and a plan
  Manifest manifest;
  std::string_view recipe;
  std::optional<StepPicture> picture;
};

// Reads a manifest and prints its diagnostics. Returns the exit status.
int read_reported(const std::string& path, const ReportArguments& arguments, ReportSide& side,
                  const CommonArguments& common) {
  Diagnostics diagnostics;
  side.manifest = read_manifest_input(path, side.file, diagnostics);
  side.recipe = arguments.recipe.empty() ? kDefaultRecipe : std::string_view(arguments.recipe);
  return print_diagnostics(diagnostics, sources_of(side.file), common);
}

// Prints the errors of a side, and the warnings of its run and topologies. Returns the exit status.
int print_reported(Session& session, const CommonArguments& common) {
  if (session.usage) return kExitUsage;
  if (!has_errors(session.diagnostics))
    std::erase_if(session.diagnostics.list, [](const Diagnostic& d) { return d.span.file < 3; });
  return print_diagnostics(session.diagnostics, sources_of(session), common);
}

// Draws the step of a run. Reports errors of the files in the session's diagnostics.
void draw_side(const ReportArguments& arguments, const Run& run, ReportSide& side) {
  Session& session = side.session;
  const StepNumbers numbers =
      step_numbers(session, {.run = run, .has_run = true, .speeds = arguments.speeds, .draws = true});
  if (numbers.priced) side.picture = draw_step(session, run, *numbers.priced, numbers.memory, numbers.spans);
}

// Compiles a model and a plan, and draws the step of the run. Returns the exit status.
int compile_reported(const ReportArguments& arguments, const std::string& plan, ReportSide& side,
                     const CommonArguments& common) {
  Session& session = side.session;
  InputArguments inputs{.model = arguments.words[0],
                        .plan = plan,
                        .batch = arguments.batch,
                        .sequence = arguments.sequence,
                        .counted = true};
  RunFile run = read_session_run(session, arguments.run, arguments.recipe, inputs);
  compile_session(session, inputs, Phase::Manifest, common);
  const Compilation& c = session.compilation;
  const bool has_run = !arguments.run.empty();
  if (has_run && !session.usage && !has_errors(session.diagnostics))
    complete_run(run, c.plan, c.graph.operations, session.diagnostics);
  check_session(session, inputs, [&](Code) { return c.reached == Phase::Manifest; });
  if (has_run && !session.usage && !has_errors(session.diagnostics)) draw_side(arguments, run.run, side);
  if (const int status = print_reported(session, common); status != kExitFine) return status;
  side.manifest = c.manifest;
  side.recipe = find_recipe(arguments.recipe.empty() ? run.run.recipe : arguments.recipe)->name;
  if (has_run && !side.picture)
    print(STDERR_FILENO,
          fmt::format("{}: the step is not drawn: its operations are not all known, or none takes time\n",
                      escape_for_terminal(plan)));
  return kExitFine;
}

// Returns why the options do not fit together; empty if they do.
std::string report_misuse(const ReportArguments& arguments) {
  const bool has_model = arguments.words.size() == 2;
  if (!has_model && !arguments.run.empty())
    return "--run: a manifest has no operations; pass MODEL PLAN in place of the manifest";
  if (!has_model && (arguments.batch > 0 || arguments.sequence > 0))
    return "--batch and --sequence: a manifest has the step that it was compiled for; pass MODEL PLAN in its place";
  if (!arguments.run.empty() && arguments.speeds.empty())
    return "--run: the time of a step depends on the hardware; add --topology";
  std::vector<std::string> words = arguments.words;
  if (!arguments.against.empty()) words.push_back(arguments.against);
  if (std::count(words.begin(), words.end(), "-") > 1) return "only one of the inputs can be standard input";
  return {};
}

// The times of both sides by their manifests, without a run.
struct ManifestTimes {
  std::optional<TimedStep> now, before;
};

// Returns the exit status.
int time_sides(const ReportArguments& arguments, const Manifest& now, const Manifest* before, ManifestTimes& times,
               const CommonArguments& common) {
  Diagnostics diagnostics;
  std::vector<SpeedFile> speeds;
  if (read_speed_files(arguments.speeds, 1, speeds, diagnostics)) {
    times.now = time_manifest(now, speeds, diagnostics);
    if (times.now && before != nullptr) times.before = time_manifest(*before, speeds, diagnostics);
  }
  std::vector<const SourceFile*> files;
  for (const SpeedFile& speed : speeds) files.push_back(&speed.file);
  if (const int status = print_diagnostics(diagnostics, sources_of(files), common); status != kExitFine) return status;
  if (!times.now)
    print(STDERR_FILENO, fmt::format("{}: the time of a step is unknown: the manifest lists no operations\n",
                                     escape_for_terminal(arguments.words.back())));
  return kExitFine;
}

}  // namespace

int reject_overflow(std::string_view manifest) {
  print(STDERR_FILENO, fmt::format("{}: error[TP9001]: the number of bytes on a rank exceeds 64 bits\n",
                                   escape_for_terminal(manifest)));
  return kExitInternal;
}

int cmd_report(const ReportArguments& arguments, const CommonArguments& common) {
  if (const std::string misuse = report_misuse(arguments); !misuse.empty()) return usage_error(misuse);
  const bool compares = !arguments.against.empty(), has_model = arguments.words.size() == 2;
  std::vector<std::string> inputs = arguments.words;
  for (const std::string& path : {arguments.against, arguments.run}) {
    if (!path.empty()) inputs.push_back(path);
  }
  for (const std::string& word : arguments.speeds) inputs.push_back(speed_path(word));
  if (overwrites_input(arguments.output, inputs, common)) return kExitUsage;
  ReportSide now, before;
  const auto read = [&](const std::string& path, ReportSide& side) {
    return has_model ? compile_reported(arguments, path, side, common) : read_reported(path, arguments, side, common);
  };
  if (const int status = read(arguments.words.back(), now); status != kExitFine) return status;
  if (compares) {
    if (const int status = read(arguments.against, before); status != kExitFine) return status;
  }
  const ManifestMeasure measure = measure_manifest(now.manifest, *find_recipe(now.recipe));
  if (measure.overflow) return reject_overflow(arguments.words.back());
  ManifestDiff diff;
  std::optional<ReportComparison> against;
  if (compares) {
    diff = diff_manifests(before.manifest, now.manifest);
    against = ReportComparison{.manifest = &before.manifest, .diff = &diff};
  }
  ManifestTimes times;
  if (!arguments.speeds.empty() && arguments.run.empty()) {
    const int status = time_sides(arguments, now.manifest, compares ? &before.manifest : nullptr, times, common);
    if (status != kExitFine) return status;
  }
  std::optional<ReportTime> step;
  if (times.now)
    step.emplace(ReportTime{.time = times.now->time,
                            .topology = times.now->topology,
                            .before = times.before ? &times.before->time : nullptr});
  const StepPictures pictures{.now = now.picture ? &*now.picture : nullptr,
                              .before = before.picture ? &*before.picture : nullptr};
  return write_result(arguments.output, [&](const Sink& sink) {
    return render_html(now.manifest, measure, against, step, pictures, sink);
  });
}

}  // namespace tpplan
