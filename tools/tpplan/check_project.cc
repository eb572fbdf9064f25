#include "check_project.h"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <filesystem>

#include "base/text.h"
#include "resolve/match/lint_dialects.h"

namespace tpplan {
namespace {

struct ProjectRun {
  std::string model, plan;
  PlacedText mesh;  // empty: the mesh of the plan
};

// Models whose checks were skipped for the same reason.
struct UncheckedModels {
  ForecastLimit limit{};
  std::vector<std::string> models;
};

// The diagnostics of all checks, and the meshes of each diagnostic.
struct ProjectReport {
  std::deque<SourceFile> files;  // the settings file and each input, once
  Diagnostics diagnostics;
  std::vector<std::vector<std::string>> meshes;  // by diagnostic
  std::vector<CheckedPlan> checks;
  std::vector<UncheckedModels> limits;  // distinct reasons for skipped checks
  int status = kExitFine;
};

// Returns the files of all paths and globs of a list. Reports a glob without files.
std::vector<std::string> files_of_all(const std::vector<PlacedText>& patterns, Diagnostics& diagnostics) {
  std::vector<std::string> files;
  for (const PlacedText& pattern : patterns) {
    std::string reason;
    const std::vector<std::string> found = files_of(pattern.text, reason);
    files.insert(files.end(), found.begin(), found.end());
    if (!reason.empty())
      report_message(diagnostics, Code::FileUnreadable, pattern.span,
                     fmt::format("cannot search for `{}`: {}", pattern.text, reason));
    else if (found.empty())
      report_message(diagnostics, Code::FileUnreadable, pattern.span, fmt::format("no file matches `{}`", pattern.text),
                     "write the path relative to the folder of this file");
  }
  return files;
}

std::vector<ProjectRun> resolve_runs(const Project& project, Diagnostics& diagnostics) {
  std::vector<ProjectRun> runs;
  for (const ProjectCheck& check : project.checks) {
    const std::vector<std::string> models = files_of_all(check.models, diagnostics);
    const std::vector<std::string> plans = files_of_all(check.plans, diagnostics);
    const std::vector<PlacedText> meshes = check.meshes.empty() ? std::vector<PlacedText>(1) : check.meshes;
    for (const std::string& model : models) {
      for (const std::string& plan : plans) {
        for (const PlacedText& mesh : meshes) runs.push_back({model, plan, mesh});
      }
    }
  }
  return runs;
}

// Returns the id of a file in the report. The first check that reads the file stores its text.
FileId id_of(ProjectReport& report, const std::string& name) {
  const auto found = std::ranges::find(report.files, name, &SourceFile::name);
  if (found != report.files.end()) return found->id;
  const auto id = static_cast<FileId>(report.files.size() + 1);
  report.files.push_back({.name = name, .text = {}, .id = id});
  return id;
}

void store_text(ProjectReport& report, SourceFile& file) {
  SourceFile& stored = report.files[file.id - size_t{1}];
  if (stored.text.empty()) stored.text = std::move(file.text);
}

void add_diagnostics(ProjectReport& report, const Diagnostics& found, const std::string& mesh) {
  for (const Diagnostic& d : found.list) {
    std::vector<Diagnostic>& list = report.diagnostics.list;
    const auto same = std::ranges::find_if(list, [&](const Diagnostic& other) {
      return other.code == d.code && other.span.file == d.span.file && other.span.offset == d.span.offset &&
             other.message == d.message;
    });
    if (same == list.end()) {
      list.push_back(d);
      report.meshes.push_back({mesh});
    } else {
      report.meshes[static_cast<size_t>(same - list.begin())].push_back(mesh);
    }
  }
}

void add_gap(ProjectReport& report, ForecastLimit limit, const std::string& model) {
  if (unchecked_by(limit).empty()) return;
  auto known = std::ranges::find(report.limits, limit, &UncheckedModels::limit);
  if (known == report.limits.end()) known = report.limits.insert(known, {limit, {}});
  if (std::ranges::find(known->models, model) == known->models.end()) known->models.push_back(model);
}

// Returns a sentence per reason: "a.json, b.json and 3 more: operations were not checked: ...".
std::string unchecked_text_of(const ProjectReport& report) {
  constexpr size_t kMost = 5;
  std::vector<std::string> sentences;
  for (const auto& [limit, models] : report.limits) {
    const size_t shown = std::min(kMost, models.size());
    std::string names = escape_for_terminal(join(std::vector(models.begin(), models.begin() + shown), ", "));
    if (shown < models.size()) names += fmt::format(" and {} more", models.size() - shown);
    sentences.push_back(fmt::format("{}: {}", names, unchecked_text(limit)));
  }
  return join(sentences, "; ");
}

// Returns the field `checks` of schemas/diagnostics.schema.json.
std::string checks_field(std::span<const CheckedPlan> checks) {
  return json_of([&](JsonWriter& json) {
    write_array(json, checks, [&json](const CheckedPlan& check) {
      begin_object(json);
      write_field(json, "model", check.model);
      write_field(json, "plan", check.plan);
      if (!check.mesh.empty()) write_field(json, "mesh", check.mesh);
      write_field(json, "passed", check.has_passed);
      write_field(json, "result", check.result);
      if (!check.unchecked.empty()) write_field(json, "unchecked", check.unchecked);
      end_object(json);
    });
  });
}

void check_run(ProjectReport& report, const CheckArguments& arguments, const ProjectRun& run,
               const CommonArguments& common, BaselineUse& baseline) {
  Session session;
  session.model.id = id_of(report, run.model);
  session.plan.id = id_of(report, run.plan);
  session.is_known = baseline_filter(baseline);
  InputArguments inputs = arguments.inputs;
  inputs.model = run.model;
  inputs.plan = run.plan;
  inputs.within = arguments.project.root;
  if (!run.mesh.text.empty()) inputs.mesh = {run.mesh.text};
  run_session(session, inputs, Phase::Manifest, common);
  if (session.usage)
    report_message(session.diagnostics, Code::UnknownAxis, run.mesh.span,
                   fmt::format("mesh `{}` has an axis that `{}` does not declare", run.mesh.text, run.plan));
  const size_t taken = baseline.taken.errors;
  take_known(baseline, session);
  const DiagnosticCounts hidden{.errors = baseline.taken.errors - taken};
  const int status = session.usage ? kExitUsage : exit_status(session.diagnostics);
  const std::string counts = count_diagnostics(session.diagnostics);
  report.status = std::max(report.status, status);
  const ForecastLimit limit = session.compilation.plan_result.forecast.limit;
  const std::string known = hidden.errors == 0 ? "" : fmt::format(", {} hidden by the baseline", to_text(hidden));
  report.checks.push_back({.model = run.model,
                           .plan = run.plan,
                           .mesh = run.mesh.text,
                           .has_passed = status == kExitFine,
                           .result = session.usage    ? "the mesh has an axis that the plan does not declare"
                                     : counts.empty() ? "passed" + known
                                                      : counts + known,
                           .unchecked = std::string(unchecked_by(limit))});
  add_gap(report, limit, run.model);
  add_diagnostics(report, session.diagnostics, run.mesh.text);
  store_text(report, session.model);
  store_text(report, session.plan);
}

// Adds a note with the meshes to each diagnostic that does not occur in all checks of its plan.
void describe_meshes(ProjectReport& report, const std::vector<ProjectRun>& runs) {
  for (size_t i = 0; i < report.diagnostics.list.size(); ++i) {
    Diagnostic& d = report.diagnostics.list[i];
    const auto runs_of_file = std::ranges::count_if(runs, [&](const ProjectRun& run) {
      return d.span.file != kNoFile && report.files[d.span.file - size_t{1}].name == run.plan;
    });
    const std::vector<std::string>& meshes = report.meshes[i];
    if (std::ssize(meshes) < runs_of_file && !meshes.front().empty())
      d.notes.push_back({fmt::format("reported with mesh {}", join(meshes, ", ")), {}});
  }
}

}  // namespace

int check_project(const CheckArguments& arguments, const Format& format, const CommonArguments& common,
                  BaselineUse& baseline) {
  const Project& project = arguments.project;
  std::error_code error;
  if (!project.folder.empty()) std::filesystem::current_path(project.folder, error);
  if (error) return usage_error(fmt::format("{}: {}", escape_for_terminal(project.folder), error.message()));
  ProjectReport report;
  report.files.push_back(project.source);
  report.files.front().name = std::filesystem::path(project.source.name).filename().string();
  Diagnostics missing;
  const std::vector<ProjectRun> runs = resolve_runs(project, missing);
  report.status = exit_status(missing);
  for (const ProjectRun& run : runs) check_run(report, arguments, run, common, baseline);
  describe_meshes(report, runs);
  report.diagnostics.list.insert(report.diagnostics.list.begin(), missing.list.begin(), missing.list.end());
  finish_diagnostics(report.diagnostics);
  std::vector<const SourceFile*> files;
  for (const SourceFile& file : report.files) files.push_back(&file);
  const RenderOptions look = render_options(STDOUT_FILENO, common.color);
  const std::string unchecked = unchecked_text_of(report);
  std::vector<ForecastLimit> limits;
  for (const UncheckedModels& models : report.limits) limits.push_back(models.limit);
  std::vector<DocumentField> fields{{"checks", checks_field(report.checks)}};
  if (!limits.empty()) fields.push_back({"unchecked", unchecked_field(limits)});
  std::string out = format.render({.diagnostics = report.diagnostics,
                                   .sources = sources_of(files),
                                   .look = look,
                                   .tool = kToolVersion,
                                   .page = embedded_page,
                                   .fields = fields,
                                   .unchecked = unchecked,
                                   .checks = report.checks});
  if (format.is_human && !common.quiet) {
    const auto passed = std::ranges::count(report.checks, true, &CheckedPlan::has_passed);
    for (const CheckedPlan& check : report.checks)
      out += fmt::format("{}: {}\n", check_name(check), check_result(check));
    out += (unchecked.empty() ? "" : unchecked + "\n") +
           fmt::format("{}: {} passed, {} failed\n", counted(runs.size(), "check"), passed, std::ssize(runs) - passed);
  }
  std::string baseline_note;
  report.status = finish_baseline(baseline, report.status, baseline_note);
  if (format.is_human && !common.quiet) out += baseline_note;
  if (!format.is_human) print(STDERR_FILENO, baseline_note);
  const bool printed =
      format.is_human ? print(STDOUT_FILENO, out, {.color = look.color}) : print_raw(STDOUT_FILENO, out);
  return printed ? report.status : kExitUsage;
}

}  // namespace tpplan
