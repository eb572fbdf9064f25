// Combines flags, environment variables and `.tpplan.yaml`, in this order of precedence. It applies to each option, and
// for --deny and --allow to each code.
#pragma once

#include <string>
#include <vector>

#include "commands.h"
#include "parse_line.h"
#include "settings.h"

namespace tpplan {

// The values of a command's options before the settings file is applied.
struct GateArguments {
  std::vector<std::string> deny, allow;
  std::string max_replicated;
  bool strict = false;
};

// Adds the options --deny, --allow and --strict. Their codes are validated.
void add_severity(CLI::App& command, GateArguments& gate);

// Adds the option --max-replicated. Its value is validated as a share.
void add_max_replicated(CLI::App& command, GateArguments& gate);

// Reads the settings file `config` (empty: the nearest one) into `settings` and its path into `path`. Returns false
// after reporting why it cannot be used.
[[nodiscard]] bool load_settings(const std::string& config, std::string& path, Settings& settings);

// Sets the options that neither a flag nor an environment variable has set to the values of the settings file.
void apply_settings(const CLI::App& command, const Settings& settings, bool& quiet, std::string& color,
                    std::string& format, std::string& baseline);

// Sets the severity rules and the limit of replicated bytes in `inputs`. If --deny and --allow name the same code, a
// flag overrides an environment variable, which overrides the settings file. Returns false after reporting an error if
// one kind of source names a code in both.
[[nodiscard]] bool apply_gate(const CLI::App& command, const ParsedLine& line, const GateArguments& gate,
                              const Settings& settings, InputArguments& inputs);

}  // namespace tpplan
