#include "editor_plans.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <filesystem>

#include "base/text.h"
#include "inputs.h"
#include "model/read_model.h"
#include "plan/plan_edits.h"
#include "render/render_parts.h"
#include "resolve/match/lint_dialects.h"
#include "settings.h"
#include "use_baseline.h"

namespace tpplan {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kNoModel =
    "only the plan's syntax is checked: no `checks` in a .tpplan.yaml name a model for it, and `tpplan lsp` has no "
    "`--model`";

// The settings of a project for one plan.
struct EditorProject {
  Settings settings;
  std::string folder;                                     // folder of the settings file; empty if none exists
  std::string fault;                                      // why the settings cannot be used
  std::string within;                                     // the folder that contains the models of the settings
  std::vector<std::pair<std::string, std::string>> runs;  // model and mesh (empty: the mesh of the plan)
};

fs::path absolute_path(const std::string& path) {
  std::error_code ignored;
  return fs::weakly_canonical(fs::absolute(path, ignored), ignored);
}

std::vector<std::string> files_named(const std::string& folder, const std::vector<PlacedText>& patterns) {
  std::vector<std::string> files;
  for (const PlacedText& pattern : patterns) {
    std::string ignored;  // `tpplan check` reports it
    const std::vector<std::string> found = files_of((fs::path(folder) / pattern.text).string(), ignored);
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

EditorProject project_of(const std::string& plan, const EditorArguments& arguments) {
  EditorProject project;
  if (arguments.no_config || (plan.empty() && arguments.config.empty())) return project;
  const fs::path path = plan.empty() ? fs::path() : absolute_path(plan);
  std::string file = arguments.config;
  if (file.empty()) project.fault = find_settings_file(path.parent_path().string(), file);
  if (file.empty() || !project.fault.empty()) return project;
  SourceFile source;
  Diagnostics diagnostics;
  project.settings = read_settings(file, !arguments.config.empty(), source, diagnostics);
  finish_diagnostics(diagnostics);
  const bool is_foreign =
      std::ranges::any_of(diagnostics.list, [](const Diagnostic& d) { return d.code == Code::ForeignFile; });
  if (has_errors(diagnostics) || is_foreign) {
    project.fault = fmt::format("{}: {}", file, diagnostics.list.front().message);
    return project;
  }
  project.folder = absolute_path(file).parent_path().string();
  for (const ProjectCheck& check : project.settings.project.checks) {
    const std::vector<std::string> plans = files_named(project.folder, check.plans);
    if (std::ranges::none_of(plans, [&path](const std::string& p) { return absolute_path(p) == path; })) continue;
    for (const std::string& model : files_named(project.folder, check.models)) {
      if (check.meshes.empty()) project.runs.emplace_back(model, "");
      for (const PlacedText& mesh : check.meshes) project.runs.emplace_back(model, mesh.text);
    }
  }
  return project;
}

// Returns the name of a file for messages: relative to the project folder if it is inside.
std::string name_in(const std::string& folder, const std::string& path) {
  if (folder.empty()) return path;
  const fs::path relative = absolute_path(path).lexically_relative(folder);
  return relative.empty() || *relative.begin() == ".." ? path : relative.string();
}

InputArguments inputs_of(const Settings& settings, const std::string& mesh) {
  InputArguments inputs;
  if (!mesh.empty()) inputs.mesh = {mesh};
  inputs.severity.strict = settings.strict.value_or(false);
  inputs.max_replicated = settings.max_replicated.value_or(1);
  for (const std::string& code : settings.deny.value_or(std::vector<std::string>{}))
    inputs.severity.deny.push_back(find_kind(code)->code);
  for (const std::string& code : settings.allow.value_or(std::vector<std::string>{}))
    inputs.severity.allow.push_back(find_kind(code)->code);
  return inputs;
}

void report_here(const SourceFile& plan, std::string message, Diagnostics& diagnostics) {
  report_message(diagnostics, Code::FileUnreadable, {plan.id, 0, 0}, std::move(message));
}

void add_text(EditorAnalysis& analysis, const Diagnostic& d, const Sources& sources) {
  const std::string text = full_text(d, sources, "\n");
  const bool is_elsewhere = d.span.file != analysis.plan.id && d.span.file != kNoFile;
  analysis.texts.push_back(is_elsewhere ? fmt::format("{}: {}", place_text(d.span, sources), text) : text);
}

// The meshes of each diagnostic.
using SeenOn = std::vector<std::vector<std::string>>;

// Adds the diagnostics of one check that earlier checks have not reported.
void add_run(EditorAnalysis& analysis, Session& session, const std::string& mesh, SeenOn& seen) {
  const Sources sources = locate(session.diagnostics, sources_of(session));
  for (const Diagnostic& d : session.diagnostics.list) {
    std::vector<Diagnostic>& list = analysis.diagnostics.list;
    const auto same = std::ranges::find_if(list, [&d](const Diagnostic& other) {
      return other.code == d.code && other.span.file == d.span.file && other.span.offset == d.span.offset &&
             other.message == d.message;
    });
    if (same != list.end()) {
      seen[static_cast<size_t>(same - list.begin())].push_back(mesh);
      continue;
    }
    seen.push_back({mesh});
    add_text(analysis, d, sources);
    list.push_back(d);
  }
}

std::unique_ptr<Session> run_with(EditorAnalysis& analysis, const EditorProject& project, const std::string& model,
                                  const std::string& mesh, BaselineUse& baseline, SeenOn& seen) {
  auto session = std::make_unique<Session>();
  session->plan = analysis.plan;
  const InputArguments inputs = inputs_of(project.settings, mesh);
  MeshSizes sizes;
  const std::string fault = mesh_error(inputs.mesh, sizes);
  if (!fault.empty()) report_here(session->plan, fault, session->diagnostics);
  if (fault.empty() && read_input(model, kMaxModelBytes, session->model, session->diagnostics, project.within)) {
    session->model.name = name_in(project.folder, model);
    session->is_known = baseline_filter(baseline);
    compile_texts(*session, inputs, sizes, Phase::Manifest, {});
    if (session->usage)
      report_here(session->plan, fmt::format("mesh `{}` has an axis that this plan does not declare", mesh),
                  session->diagnostics);
  }
  session->usage = false;
  check_session(*session, inputs,
                [&](Code code) { return session->compilation.reached == Phase::Manifest && code != kLintCode; });
  take_known(baseline, *session);
  add_run(analysis, *session, mesh, seen);
  return session;
}

}  // namespace

bool is_plan_document(const OpenPlan& open, const EditorArguments& arguments) {
  return open.text.find("tpplan.plan/") != std::string::npos || !project_of(open.path, arguments).runs.empty();
}

std::unique_ptr<EditorAnalysis> analyse(const OpenPlan& open, const EditorArguments& arguments) {
  auto analysis = std::make_unique<EditorAnalysis>();
  EditorProject project = project_of(open.path, arguments);
  analysis->plan.name = open.path.empty() ? open.uri : name_in(project.folder, open.path);
  analysis->plan.text = open.text;
  if (!project.runs.empty()) project.within = project.settings.project.root;
  if (project.runs.empty() && !arguments.model.empty()) project.runs.emplace_back(arguments.model, "");
  if (project.runs.empty()) {
    analysis->no_model =
        project.fault.empty() ? kNoModel : fmt::format("only the plan's syntax is checked: {}", project.fault);
    std::ignore = read_plan(analysis->plan, {}, analysis->diagnostics);
    drop_broken_edits(analysis->plan, analysis->diagnostics);
    finish_diagnostics(analysis->diagnostics);
    const SourceFile no_model;
    const std::vector<const SourceFile*> files = {&no_model, &analysis->plan};
    const Sources sources = locate(analysis->diagnostics, sources_of(files));
    for (const Diagnostic& d : analysis->diagnostics.list) add_text(*analysis, d, sources);
    return analysis;
  }
  BaselineUse baseline;
  const CheckArguments check{
      .project = project.settings.project, .baseline = project.settings.baseline.value_or(""), .finds_baseline = true};
  std::ignore = prepare_baseline(check, {}, baseline);  // its errors are in the editor's log
  SeenOn seen;
  for (const auto& [model, mesh] : project.runs) {
    auto session = run_with(*analysis, project, model, mesh, baseline, seen);
    if (analysis->session == nullptr) analysis->session = std::move(session);
  }
  for (size_t i = 0; i < seen.size(); ++i) {
    const bool is_on_some = seen[i].size() < project.runs.size() && !seen[i].front().empty();
    if (is_on_some)
      analysis->texts[i] += fmt::format("\nnote: reported with mesh {}", escape_for_terminal(join(seen[i], ", ")));
  }
  return analysis;
}

const std::vector<CompletionPath>& paths_of(EditorAnalysis& analysis) {
  if (analysis.paths) return *analysis.paths;
  const Session* session = analysis.session.get();
  const bool is_model = session != nullptr && session->compilation.reached > Phase::Model &&
                        std::ranges::none_of(session->diagnostics.list, [session](const Diagnostic& d) {
                          return d.severity == Severity::Error && d.span.file != session->plan.id;
                        });
  analysis.paths = is_model ? completion_paths(session->compilation.graph) : std::vector<CompletionPath>{};
  return *analysis.paths;
}

std::string path_of_uri(std::string_view uri) {
  constexpr std::string_view kFile = "file://";
  if (!uri.starts_with(kFile)) return {};
  uri.remove_prefix(kFile.size());
  uri.remove_prefix(std::min(uri.find('/'), uri.size()));  // the host
  const auto digit = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
  };
  std::string path;
  for (size_t i = 0; i < uri.size(); ++i) {
    const bool is_code = uri[i] == '%' && i + 2 < uri.size() && digit(uri[i + 1]) >= 0 && digit(uri[i + 2]) >= 0;
    path += is_code ? static_cast<char>(digit(uri[i + 1]) * 16 + digit(uri[i + 2])) : uri[i];
    if (is_code) i += 2;
  }
  return path.find('\0') == std::string::npos ? path : std::string();
}

}  // namespace tpplan
