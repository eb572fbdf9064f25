#include "inputs.h"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <tuple>

#include "base/read_file.h"
#include "base/text.h"
#include "git_file.h"
#include "manifest/read_manifest.h"
#include "render/render.h"

namespace tpplan {

namespace {

// True if the text after the dot is part of a version, as in `Llama-3.1-8B`, and not a file extension.
bool looks_like_version(const std::filesystem::path& path) {
  const std::string extension = path.extension().string();
  return extension.size() > 1 && extension[1] >= '0' && extension[1] <= '9';
}

// Returns the help for an unreadable path, such as the file in its folder with the most similar name.
std::string path_help(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::path wanted(path);
  if (std::filesystem::is_directory(wanted, ignored))
    return "pass a file; `tpplan import --help` lists the formats that it converts";
  const std::filesystem::path folder = wanted.has_parent_path() ? wanted.parent_path() : ".";
  if (!std::filesystem::is_directory(folder, ignored))
    return fmt::format("check the path: the folder `{}` does not exist{}", folder.string(),
                       wanted.has_extension() && !looks_like_version(wanted)
                           ? ""
                           : "; tpplan downloads nothing, so pass a file such as the model's `config.json`");
  constexpr size_t kMostNames = 2'000;
  std::vector<std::string> names;
  for (std::filesystem::directory_iterator at(folder, ignored), end; !ignored && at != end && names.size() < kMostNames;
       at.increment(ignored))
    names.push_back(at->path().filename().string());
  std::sort(names.begin(), names.end());
  const std::vector<std::string_view> views(names.begin(), names.end());
  const std::string_view nearest = nearest_name(wanted.filename().string(), views);
  return nearest.empty() || nearest == wanted.filename().string()
             ? ""
             : fmt::format("did you mean `{}`?",
                           (wanted.has_parent_path() ? wanted.parent_path() / nearest : std::filesystem::path(nearest))
                               .string());
}

// True, after reporting it, if the file is a plan instead of a manifest, which is JSON.
bool reject_plan(const SourceFile& file, std::string_view help, Diagnostics& diagnostics) {
  const size_t at = file.text.find_first_not_of(" \t\r\n");
  if (at == std::string::npos || file.text[at] == '{' || file.text.find("tpplan.plan/") == std::string::npos)
    return false;
  report_message(diagnostics, Code::InvalidManifest, {file.id, 0, 0}, "this is a plan, not a manifest",
                 std::string(help));
  return true;
}

}  // namespace

bool read_input(const std::string& path, uint64_t limit, SourceFile& file, Diagnostics& diagnostics,
                const std::string& within) {
  ReadResult result = within.empty() ? read_file(path, limit) : read_file_within(within, path, limit);
  const FileId id = file.id;
  file = std::move(result.file);
  file.id = id;
  if (result.fault == ReadError::None) return true;
  const bool too_large = result.fault == ReadError::TooLarge;
  report_message(diagnostics, too_large ? Code::FileTooLarge : Code::FileUnreadable, {id, 0, 0},
                 too_large ? fmt::format("the file is larger than {}", human_bytes(limit))
                           : fmt::format("cannot read the file: {}", result.reason),
                 too_large ? ""
                 : result.reason == kLeadsOut
                     ? "pass files outside the project on the command line, not in the settings"
                     : path_help(path));
  return false;
}

RunFile read_run_input(const std::string& path, SourceFile& file, Diagnostics& diagnostics) {
  constexpr uint64_t kMostBytes = uint64_t{1} << 20;
  return read_input(path, kMostBytes, file, diagnostics) ? read_run(file, recipe_names(), diagnostics) : RunFile{};
}

void hide_content(FileId file, Diagnostics& diagnostics) {
  for (Diagnostic& d : diagnostics.list) {
    if (d.span.file != file || d.code == Code::FileUnreadable || d.code == Code::FileTooLarge) continue;
    d = {.code = d.code,
         .severity = d.severity,
         .span = {d.span.file, d.span.offset, 0},  // without a length no line is shown
         .message = std::string(kind_of(d.code).title),
         .help = "pass this file on the command line to see its content, which is hidden because the settings name it"};
  }
}

bool take_committed_input(GitFile found, const std::string& path, const std::string& ref, uint64_t limit,
                          SourceFile& file, Diagnostics& diagnostics) {
  file.name = fmt::format("{}:{}", ref, path);
  file.text = std::move(found.text);
  if (found.fault == GitError::None) return true;
  const GitWords words = describe(found, path, ref, limit);
  report_message(diagnostics, found.fault == GitError::TooLarge ? Code::FileTooLarge : Code::FileUnreadable,
                 {file.id, 0, 0}, words.message, words.help);
  return false;
}

Manifest read_manifest_input(const std::string& path, SourceFile& file, Diagnostics& diagnostics,
                             std::string_view plan_help, const std::string& ref) {
  const bool is_read = ref.empty() ? read_input(path, kMaxManifestBytes, file, diagnostics)
                                   : take_committed_input(read_git_file(path, ref, kMaxManifestBytes), path, ref,
                                                          kMaxManifestBytes, file, diagnostics);
  if (!is_read || reject_plan(file, plan_help, diagnostics)) return {};
  return read_manifest(file, diagnostics);
}

int print_diagnostics(Diagnostics& diagnostics, const Sources& sources, const CommonArguments& common) {
  for (Diagnostic& d : diagnostics.list) {
    const SourceFile* file =
        d.code == Code::FileUnreadable && d.help.empty() ? find_file(sources, d.span.file) : nullptr;
    if (file != nullptr && !file->name.empty()) d.help = path_help(file->name);
  }
  finish_diagnostics(diagnostics);
  print_diagnostics(STDERR_FILENO, diagnostics, sources, common.color);
  return exit_status(diagnostics);
}

bool overwrites_input(const std::string& output, const std::vector<std::string>& inputs, const CommonArguments& common,
                      std::string_view help) {
  if (output == "-") return false;
  int settings_error = 0, error = 0;
  const bool is_settings = !common.settings.empty() && is_same_file(output, {common.settings}, settings_error);
  const bool is_input = is_same_file(output, inputs, error);
  if (error == 0) error = settings_error;
  if (!is_settings && !is_input && error == 0) return false;
  if (!is_settings && !is_input) {
    std::ignore =
        reject_write(output, fmt::format("cannot check whether it is one of the inputs: {}", std::strerror(error)));
    return true;
  }
  print(STDERR_FILENO, fmt::format("{}: error[TP1010]: the output is {}\n  = help: {}\n", escape_for_terminal(output),
                                   is_settings ? "the settings file" : "one of the inputs", help));
  return true;
}

int reject_write(const std::string& output, std::string_view fault, std::string help) {
  const std::string name = output == "-" ? "<stdout>" : escape_for_terminal(output);
  std::error_code ignored;
  const std::filesystem::path folder = std::filesystem::path(output).parent_path();
  const bool is_missing = output != "-" && !folder.empty() && !std::filesystem::exists(folder, ignored);
  if (fault == kChangedSinceRead) help = "run the command again: the other change is not lost";
  if (is_missing) help = fmt::format("create the folder first: mkdir -p {}", escape_for_terminal(folder.string()));
  print(STDERR_FILENO, fmt::format("{}: error[TP1009]: cannot write the output: {}\n{}", name, fault,
                                   help.empty() ? "" : fmt::format("  = help: {}\n", help)));
  return kExitUsage;
}

int write_result(const std::string& output, const Producer& produce) {
  const std::string fault = write_output(output, produce);
  return fault.empty() ? kExitFine : reject_write(output, fault);
}

}  // namespace tpplan
