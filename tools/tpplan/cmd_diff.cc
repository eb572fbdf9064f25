#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "commands.h"
#include "cost/check_run.h"
#include "cost/measure_collectives.h"
#include "cost/measure_training.h"
#include "diff/diff_manifest.h"
#include "diff/diff_markdown.h"
#include "diff/diff_text.h"
#include "diff/write_diff.h"
#include "git_file.h"
#include "inputs.h"
#include "model/read_model.h"
#include "priced_run.h"
#include "render/render.h"
#include "report/render_run.h"
#include "text/yaml_tree.h"

namespace tpplan {
namespace {

// Returns the exit status for invalid inputs of `diff`. Status 1 means that manifests differ, so a manifest with wrong
// content counts as unreadable.
int as_unreadable(int status) { return status == kExitContent ? kExitUsage : status; }

// Reads one manifest and prints its diagnostics to standard error. Returns the exit status.
int read_side(const std::string& path, const std::string& ref, SourceFile& file, Manifest& manifest,
              const CommonArguments& common) {
  Diagnostics diagnostics;
  manifest = read_manifest_input(
      path, file, diagnostics,
      ref.empty() ? "compare plans with `tpplan diff MODEL OLD NEW` or `tpplan diff MODEL PLAN --base COMMIT`"
                  : "compare plans with `tpplan diff MODEL PLAN --base COMMIT`",
      ref);
  return as_unreadable(print_diagnostics(diagnostics, sources_of(file), common));
}

// Prints the diagnostics of a compiled plan to standard error if it has errors. Ignores warnings. Returns the exit
// status.
int print_side(Session& session, const CommonArguments& common) {
  if (session.usage) return kExitUsage;
  if (!has_errors(session.diagnostics)) return kExitFine;
  print_diagnostics(STDERR_FILENO, session.diagnostics, sources_of(session), common.color);
  return as_unreadable(exit_status(session.diagnostics));
}

// One side of a comparison of plans, with the costs of its step.
struct PlanSide {
  Session session;
  RunFile run;
  StepNumbers numbers;
};

// Prices the step of a compiled side, and prints the errors of the side. Returns the exit status.
int price_side(const DiffArguments& arguments, PlanSide& side, const CommonArguments& common) {
  Session& session = side.session;
  const bool has_run = !arguments.run.empty();
  if (!session.usage && has_run && !has_errors(session.diagnostics)) {
    const Compilation& c = session.compilation;
    complete_run(side.run, c.plan, c.graph.operations, session.diagnostics);
    side.numbers = step_numbers(session, {.run = side.run.run, .has_run = true, .speeds = arguments.speeds});
  }
  return print_side(session, common);
}

// Reads the run and returns the inputs of a side.
InputArguments side_inputs(const DiffArguments& arguments, const std::string& plan, PlanSide& side) {
  InputArguments inputs{.model = arguments.words[0],
                        .plan = plan,
                        .batch = arguments.batch,
                        .sequence = arguments.sequence,
                        .counted = true};
  side.run = read_session_run(side.session, arguments.run, arguments.recipe, inputs);
  return inputs;
}

int compile_side(const DiffArguments& arguments, const std::string& plan, PlanSide& side,
                 const CommonArguments& common) {
  const InputArguments inputs = side_inputs(arguments, plan, side);
  run_session(side.session, inputs, Phase::Manifest, common);
  return price_side(arguments, side, common);
}

// Compiles the model and the plan of a commit. If the commit has no model, for example because it is exported each
// time, uses the current one and reports it.
int compile_base(const DiffArguments& arguments, PlanSide& side, const CommonArguments& common) {
  const InputArguments inputs = side_inputs(arguments, arguments.words[1], side);
  const std::string &model = inputs.model, &plan = inputs.plan, &ref = arguments.base;
  Session& session = side.session;
  bool is_read = take_committed_input(read_git_file(plan, ref, YamlLimits{}.bytes), plan, ref, YamlLimits{}.bytes,
                                      session.plan, session.diagnostics);
  if (is_read) {
    GitFile old_model = read_git_file(model, ref, kMaxModelBytes);
    if (old_model.fault == GitError::NotThere || old_model.fault == GitError::NoRepository) {
      if (!common.quiet)
        print(STDERR_FILENO, fmt::format("{} is not in commit `{}`: both plans are compiled for its current version\n",
                                         escape_for_terminal(model), escape_for_terminal(ref)));
      is_read = read_input(model, kMaxModelBytes, session.model, session.diagnostics);
    } else {
      is_read =
          take_committed_input(std::move(old_model), model, ref, kMaxModelBytes, session.model, session.diagnostics);
    }
  }
  if (is_read) compile_texts(session, inputs, {}, Phase::Manifest, common);
  check_session(session, {}, [&](Code) { return session.compilation.reached == Phase::Manifest; });
  return price_side(arguments, side, common);
}

// An output format of `diff`. The command line rejects other names.
struct DiffFormat {
  std::string_view name;
  bool (*print)(const ManifestDiff& diff, const CommonArguments& common);
};
constexpr DiffFormat kDiffFormats[] = {
    {"human",
     [](const ManifestDiff& diff, const CommonArguments& common) {
       return print_painted((common.quiet ? "" : diff_summary(diff)) + diff_text(diff), kDiffColors, common.color);
     }},
    {"json",
     [](const ManifestDiff& diff, const CommonArguments&) {
       return print_parts(PrintedAs::Raw, [&](const Sink& sink) { return write_diff_json(diff, sink); });
     }},
    {"markdown",
     [](const ManifestDiff& diff, const CommonArguments&) { return print(STDOUT_FILENO, diff_markdown(diff)); }},
};

std::optional<StepSeconds> seconds_of(const std::optional<TimedStep>& step) {
  if (!step) return std::nullopt;
  const StepTime& time = step->time;
  return StepSeconds{.forward = time.forward,
                     .backward = time.backward,
                     .waited = time.waited,
                     .overlapped = time.hidden,
                     .total = time.total};
}

StepTotals step_totals(const Manifest& manifest, const Recipe& recipe) {
  const TrainingMemory memory = measure_training(manifest, recipe);
  StepTotals numbers{.has_activations = memory.has_step,
                     .batch = static_cast<uint64_t>(manifest.step.batch),
                     .sequence = static_cast<uint64_t>(manifest.step.sequence)};
  if (manifest.has_collectives) numbers.sent = sum_calls(manifest.collectives, manifest.mesh).wire;
  if (!memory.overflow) numbers.memory = memory.total;
  for (const AxisId axis : data_axes_of(manifest))
    numbers.data_ranks *= static_cast<uint64_t>(manifest.mesh.axes[axis].size);
  return numbers;
}

// Computes the time of a step of both sides, each on its own mesh. Returns the exit status of the topology files.
int time_sides(const Manifest& before, const Manifest& after, const std::vector<std::string>& words, TimeDiff& time,
               const CommonArguments& common) {
  if (words.empty()) return kExitFine;
  Diagnostics diagnostics;
  std::vector<SpeedFile> speeds;
  if (read_speed_files(words, 1, speeds, diagnostics)) {
    const std::optional<TimedStep> old_step = time_manifest(before, speeds, diagnostics);
    const std::optional<TimedStep> new_step =
        has_errors(diagnostics) ? std::nullopt : time_manifest(after, speeds, diagnostics);
    const Topology topology = new_step ? new_step->topology : old_step ? old_step->topology : Topology{};
    time = {.is_requested = true,
            .machine = topology.name.empty() ? topology.device : topology.name,
            .before = seconds_of(old_step),
            .after = seconds_of(new_step)};
  }
  std::vector<const SourceFile*> files;
  for (const SpeedFile& file : speeds) files.push_back(&file.file);
  return as_unreadable(print_diagnostics(diagnostics, sources_of(files), common));
}

// Sets what a run determines: memory, seconds and micro-batches.
void take_numbers(const PlanSide& side, StepTotals& totals) {
  const TrainingMemory& memory = side.numbers.memory;
  totals.has_activations = memory.has_step;
  totals.memory = memory.overflow ? std::nullopt : std::optional(memory.total);
  if (memory.peak) totals.reserved = memory.peak->reserved;
  if (side.numbers.priced) totals.seconds = side.numbers.priced->answer.step.seconds;
  totals.micro_batches = static_cast<uint64_t>(side.run.run.accumulation);
}

int print_difference(const ManifestDiff& diff, const DiffArguments& arguments, const CommonArguments& common) {
  const auto format = std::ranges::find(kDiffFormats, arguments.format, &DiffFormat::name);
  if (!format->print(diff, common)) return kExitUsage;
  return diff.same || arguments.exit_zero ? kExitFine : kExitContent;
}

ManifestDiff difference(const Manifest& before, const Manifest& after, const Recipe& recipe) {
  ManifestDiff diff = diff_manifests(before, after);
  diff.step = {.is_requested = before.has_collectives || after.has_collectives,
               .recipe = recipe.name,
               .before = step_totals(before, recipe),
               .after = step_totals(after, recipe)};
  return diff;
}

// Compares two manifests by what they contain.
int show_difference(const Manifest& before, const Manifest& after, const DiffArguments& arguments,
                    const CommonArguments& common) {
  const Recipe& recipe = *find_recipe(arguments.recipe.empty() ? kDefaultRecipe : arguments.recipe);
  ManifestDiff diff = difference(before, after, recipe);
  if (const int status = time_sides(before, after, arguments.speeds, diff.time, common); status != kExitFine)
    return status;
  return print_difference(diff, arguments, common);
}

// Compares two plans by the step of a run, and prints the run in the format for people.
int show_run_difference(const PlanSide& before, const PlanSide& after, const DiffArguments& arguments,
                        const CommonArguments& common) {
  ManifestDiff diff = difference(before.session.compilation.manifest, after.session.compilation.manifest,
                                 *find_recipe(after.run.run.recipe));
  diff.step.has_run = true;
  take_numbers(before, diff.step.before);
  take_numbers(after, diff.step.after);
  for (const auto& [side, name] : {std::pair{&before, "old"}, std::pair{&after, "new"}}) {
    if (!arguments.speeds.empty() && !side->numbers.priced)
      print(STDERR_FILENO,
            fmt::format("the time of a step is unknown: the operations of the {} plan are not all known\n", name));
  }
  const int status = print_difference(diff, arguments, common);
  if (arguments.format != "human" || common.quiet || status == kExitUsage) return status;
  const RenderOptions look = render_options(STDOUT_FILENO, common.color);
  const std::string run = '\n' + render_run(after.run.run, {.color = look.color, .width = look.width});
  return print(STDOUT_FILENO, run, {.color = look.color}) ? status : kExitUsage;
}

// Compiles and compares two plans of a model. With --base, the old plan is read from a commit.
int diff_plans(const DiffArguments& arguments, const CommonArguments& common) {
  const std::vector<std::string>& words = arguments.words;
  PlanSide before, after;
  const int new_status = compile_side(arguments, words.back(), after, common);
  if (new_status != kExitFine && !arguments.run.empty()) return new_status;  // both sides have the errors of the run
  const int old_status = arguments.is_against_base ? compile_base(arguments, before, common)
                                                   : compile_side(arguments, words[1], before, common);
  if (old_status != kExitFine || new_status != kExitFine) return std::max(old_status, new_status);
  if (!arguments.run.empty()) return show_run_difference(before, after, arguments, common);
  return show_difference(before.session.compilation.manifest, after.session.compilation.manifest, arguments, common);
}

// Compares two manifests, or a manifest with its version at a commit.
int diff_files(const DiffArguments& arguments, const CommonArguments& common) {
  const std::vector<std::string>& words = arguments.words;
  SourceFile old_file, new_file;
  Manifest before, after;
  const int old_status = read_side(words[0], arguments.base, old_file, before, common);
  const int new_status = read_side(words.back(), {}, new_file, after, common);
  if (old_status != kExitFine || new_status != kExitFine) return std::max(old_status, new_status);
  return show_difference(before, after, arguments, common);
}

// Returns the usage error of the arguments; empty without error.
std::string misuse_of(const DiffArguments& arguments) {
  const size_t count = arguments.words.size();
  const auto from_stdin = std::ranges::count(arguments.words, "-");
  if (!arguments.is_against_base) {
    if (count < 2)
      return "diff expects two manifests, OLD NEW, or a model and two plans, MODEL OLD NEW; --base COMMIT replaces OLD";
    return from_stdin > 1 ? "only one of the files can be standard input" : "";
  }
  if (!is_git_ref(arguments.base))
    return fmt::format("--base {}: expected a git commit, branch or tag, such as origin/main",
                       escape_for_terminal(arguments.base));
  if (count > 2) return "--base replaces OLD: pass only MODEL PLAN, or MANIFEST";
  return from_stdin > 0 ? "--base: git has no version of standard input: pass file names" : "";
}

}  // namespace

std::vector<std::string> diff_format_names() {
  std::vector<std::string> names;
  for (const DiffFormat& format : kDiffFormats) names.emplace_back(format.name);
  return names;
}

int cmd_diff(const DiffArguments& arguments, const CommonArguments& common) {
  if (const std::string misuse = misuse_of(arguments); !misuse.empty()) return usage_error(misuse);
  const bool has_model = arguments.words.size() == (arguments.is_against_base ? 2 : 3);
  const std::pair<std::string_view, bool> of_plans[] = {
      {"--run", !arguments.run.empty()}, {"--batch", arguments.batch > 0}, {"--sequence", arguments.sequence > 0}};
  for (const auto& [name, is_given] : of_plans) {
    if (is_given && !has_model)
      return usage_error(
          fmt::format("{}: a manifest has no operations, from which the costs of another step follow: "
                      "pass MODEL OLD NEW, or MODEL PLAN --base COMMIT",
                      name));
  }
  return has_model ? diff_plans(arguments, common) : diff_files(arguments, common);
}

}  // namespace tpplan
