// `.tpplan.yaml`: what a project always wants, so that nobody types it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "diagnostics/diagnostics.h"
#include "project.h"

namespace tpplan {

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
// `.git`) or of the file system; empty when there is none.
[[nodiscard]] std::string find_settings_file();

// Why an error's code cannot be allowed, and what to do: said of flags, variables and files alike.
[[nodiscard]] std::string not_allowed(const DiagnosticKind& error);

// Reads a settings file: one that somebody named, or one that was found, which is a regular file or is refused. Reports
// unknown keys and wrong types as findings; `file` receives the text for rendering them.
[[nodiscard]] Settings read_settings(const std::string& path, bool is_named, SourceFile& file,
                                     Diagnostics& diagnostics);

}  // namespace tpplan
