// `.tpplan.yaml`: what a project always wants, so that nobody types it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "diagnostics/diagnostics.h"
#include "project.h"

namespace tpplan {

// What helps where the settings file that was found cannot be read.
inline constexpr std::string_view kOtherSettings = "name a file with `--config FILE`, or read none with `--no-config`";

// Absent: the file does not say.
struct Settings {
  std::optional<bool> strict, quiet;
  std::optional<std::string> format, color;
  std::optional<std::string> baseline;  // as a path from the working directory
  std::optional<double> max_replicated;
  std::optional<std::vector<std::string>> deny, allow;
  Project project;
};

// The nearest `.tpplan.yaml` in the working directory or above it, up to the root of the repository (the directory with
// `.git`) or of the file system; `path` is empty when there is none. Returns why nobody can say whether there is one,
// of which file `path` is then; empty: it is known.
[[nodiscard]] std::string find_settings_file(std::string& path);

// The same from another folder, whose path begins with the root's.
[[nodiscard]] std::string find_settings_file(const std::string& from, std::string& path);

// Why an error's code cannot be allowed, and what to do: said of flags, variables and files alike.
[[nodiscard]] std::string not_allowed(const DiagnosticKind& error);

// Reads a settings file: one that somebody named, or one that was found, which is a regular file or is refused. Reports
// unknown keys and wrong types as findings; `file` receives the text for rendering them.
[[nodiscard]] Settings read_settings(const std::string& path, bool is_named, SourceFile& file,
                                     Diagnostics& diagnostics);

}  // namespace tpplan
