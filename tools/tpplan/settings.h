// `.tpplan.yaml`: the default options of a project.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "diagnostics/diagnostics.h"
#include "project.h"

namespace tpplan {

// The help if the settings file that was found cannot be read.
inline constexpr std::string_view kOtherSettings =
    "pass a file with `--config FILE`, or ignore settings with `--no-config`";

// The contents of a settings file. An empty optional means that the file does not set the option.
struct Settings {
  std::optional<bool> strict, quiet;
  std::optional<std::string> format, color;
  std::optional<std::string> baseline;  // path relative to the working directory
  std::optional<double> max_replicated;
  std::optional<std::vector<std::string>> deny, allow;
  Project project;
};

// Sets `path` to the nearest `.tpplan.yaml`: from the working directory up to the root of its repository (the folder
// with `.git`), or only in the working directory if that is in no repository. Never searches above the home directory.
// `path` is empty if none exists. Returns an error text if a lookup fails, with the last candidate in `path`; otherwise
// empty.
[[nodiscard]] std::string find_settings_file(std::string& path);

// Searches from the folder `from` instead of the working directory. @pre `from` is absolute.
[[nodiscard]] std::string find_settings_file(const std::string& from, std::string& path);

// Reports that a file belongs to another user and is therefore not read. `what` is its name in messages.
void report_foreign(const SourceFile& file, std::string_view what, uid_t owner, std::string_view help,
                    Diagnostics& diagnostics);

// Returns the message that an error's code cannot be allowed, for flags, environment variables and settings files.
[[nodiscard]] std::string not_allowed(const DiagnosticKind& error);

// Reads a settings file. If it was found (`is_named` is false), it must be a regular file of the user; another user's
// is reported and not read. Reports unknown keys and wrong types; `file` receives the text for rendering these
// diagnostics.
[[nodiscard]] Settings read_settings(const std::string& path, bool is_named, SourceFile& file,
                                     Diagnostics& diagnostics);

}  // namespace tpplan
