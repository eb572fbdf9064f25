#include "check_project.h"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <filesystem>

#include "base/text.h"
#include "match/lint_dialects.h"

namespace tpplan {
namespace {

struct ProjectRun {
  std::string model, plan;
  PlacedText mesh;  // empty: the plan's own
};

// Findings of all runs, and the meshes on which each was seen.
struct ProjectReport {
  std::deque<SourceFile> files;  // the settings file, and each input once
  Diagnostics diagnostics;
  std::vector<std::vector<std::string>> meshes;  // by diagnostic
  std::string lines;                             // one for each run
  std::vector<ForecastGap> gaps;                 // why something was not looked at in some of them, each once
  size_t fine = 0;
  int status = kExitFine;
};

// Files of all paths and globs of a list; one that there is none for is reported.
std::vector<std::string> files_of_all(const std::vector<PlacedText>& patterns, Diagnostics& diagnostics) {
  std::vector<std::string> files;
  for (const PlacedText& pattern : patterns) {
    std::string reason;
    const std::vector<std::string> found = files_of(pattern.text, reason);
    files.insert(files.end(), found.begin(), found.end());
    if (!reason.empty())
      report_message(diagnostics, Code::TP1001, pattern.span,
                     fmt::format("cannot look for `{}`: {}", pattern.text, reason));
    else if (found.empty())
      report_message(diagnostics, Code::TP1001, pattern.span, fmt::format("no file is called `{}`", pattern.text),
                     "paths are from the folder of this file");
  }
  return files;
}

std::vector<ProjectRun> runs_of(const Project& project, Diagnostics& diagnostics) {
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

// The number of a file in the report. Its text comes with the first run that has read it.
FileId id_of(ProjectReport& report, const std::string& name) {
  const auto found = std::ranges::find(report.files, name, &SourceFile::name);
  if (found != report.files.end()) return found->id;
  const auto id = static_cast<FileId>(report.files.size() + 1);
  report.files.push_back({.name = name, .text = {}, .id = id});
  return id;
}

void keep_text(ProjectReport& report, SourceFile& file) {
  SourceFile& own = report.files[file.id - size_t{1}];
  if (own.text.empty()) own.text = std::move(file.text);
}

void add_findings(ProjectReport& report, const Diagnostics& found, const std::string& mesh) {
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

void check_run(ProjectReport& report, const CheckArguments& arguments, const ProjectRun& run,
               const CommonArguments& common, BaselineUse& baseline) {
  Session session;
  session.model.id = id_of(report, run.model);
  session.plan.id = id_of(report, run.plan);
  InputArguments inputs = arguments.inputs;
  inputs.model = run.model;
  inputs.plan = run.plan;
  if (!run.mesh.text.empty()) inputs.mesh = {run.mesh.text};
  run_session(session, inputs, Phase::Manifest, common);
  if (session.usage)
    report_message(session.diagnostics, Code::TP3006, run.mesh.span,
                   fmt::format("`{}` is no mesh of `{}`", run.mesh.text, run.plan));
  take_known(baseline, session);
  const int status = session.usage ? kExitUsage : exit_status(session.diagnostics);
  const std::string counts = count_findings(session.diagnostics);
  report.status = std::max(report.status, status);
  report.fine += status == kExitFine;
  report.lines += fmt::format("{} {}{}: {}\n", escape_for_terminal(run.model), escape_for_terminal(run.plan),
                              run.mesh.text.empty() ? "" : fmt::format(" on {}", escape_for_terminal(run.mesh.text)),
                              session.usage    ? "a mesh that the plan does not have"
                              : counts.empty() ? "fine"
                                               : counts);
  const ForecastGap gap = session.compilation.judgement.forecast.gap;
  if (!unchecked_by(gap).empty() && std::ranges::find(report.gaps, gap) == report.gaps.end())
    report.gaps.push_back(gap);
  add_findings(report, session.diagnostics, run.mesh.text);
  keep_text(report, session.model);
  keep_text(report, session.plan);
}

// Of a finding that does not belong to every mesh of its plan, which it belongs to.
void say_meshes(ProjectReport& report, const std::vector<ProjectRun>& runs) {
  for (size_t i = 0; i < report.diagnostics.list.size(); ++i) {
    Diagnostic& d = report.diagnostics.list[i];
    const auto runs_of_file = std::ranges::count_if(runs, [&](const ProjectRun& run) {
      return d.span.file != kNoFile && report.files[d.span.file - size_t{1}].name == run.plan;
    });
    const std::vector<std::string>& meshes = report.meshes[i];
    if (std::ssize(meshes) < runs_of_file && !meshes.front().empty())
      d.notes.push_back({fmt::format("on {}", join(meshes, ", ")), {}});
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
  const std::vector<ProjectRun> runs = runs_of(project, missing);
  report.status = exit_status(missing);
  for (const ProjectRun& run : runs) check_run(report, arguments, run, common, baseline);
  say_meshes(report, runs);
  report.diagnostics.list.insert(report.diagnostics.list.begin(), missing.list.begin(), missing.list.end());
  finish_diagnostics(report.diagnostics);
  std::vector<const SourceFile*> files;
  for (const SourceFile& file : report.files) files.push_back(&file);
  const RenderOptions look = render_options(STDOUT_FILENO, common.color);
  std::string unchecked;
  for (const ForecastGap gap : report.gaps)
    unchecked += fmt::format("{}of some checks {}", unchecked.empty() ? "" : "; ", unchecked_text(gap));
  std::vector<DocumentMember> members;
  if (!report.gaps.empty()) members.push_back({"unchecked", unchecked_member(report.gaps)});
  std::string out = format.render({.diagnostics = report.diagnostics,
                                   .sources = sources_of(files),
                                   .look = look,
                                   .tool = kToolVersion,
                                   .page = embedded_page,
                                   .members = members,
                                   .unchecked = unchecked});
  if (format.for_people && !common.quiet)
    out +=
        report.lines + (unchecked.empty() ? "" : unchecked + "\n") +
        fmt::format("{}: {} fine, {} wrong\n", counted(runs.size(), "check"), report.fine, runs.size() - report.fine);
  std::string said;
  report.status = close_baseline(baseline, report.status, said);
  if (format.for_people && !common.quiet) out += said;
  if (!format.for_people) print(STDERR_FILENO, said);
  const bool printed =
      format.for_people ? print(STDOUT_FILENO, out, {.color = look.color}) : print_raw(STDOUT_FILENO, out);
  return printed ? report.status : kExitUsage;
}

}  // namespace tpplan
