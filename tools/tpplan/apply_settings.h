// Flags over variables over `.tpplan.yaml`, option by option; of deny and allow, code by code.
#pragma once

#include <string>
#include <vector>

#include "commands.h"
#include "parse_line.h"
#include "settings.h"

namespace tpplan {

// What the options of a command said, before the settings file is asked.
struct GateArguments {
  std::vector<std::string> deny, allow;
  std::string max_replicated;
  bool strict = false;
};

// The options --deny, --allow and --strict; their values are proven to be codes.
void add_severity(CLI::App& command, GateArguments& gate);

// The option --max-replicated; its value is proven to be a share.
void add_max_replicated(CLI::App& command, GateArguments& gate);

// The settings file that is asked for ("": the nearest one), read into `settings`, its path into `path`. False after
// saying why it cannot be used.
[[nodiscard]] bool load_settings(const std::string& config, std::string& path, Settings& settings);

// Gives what neither a flag nor a variable said the value that the settings file has for it.
void apply_settings(const CLI::App& command, const Settings& settings, bool& quiet, std::string& color,
                    std::string& format, std::string& baseline);

// The rules that hold for a command. Where --deny and --allow name one code, the stronger source wins: a flag, then a
// variable, then the settings file. False after saying that one source says both.
[[nodiscard]] bool apply_gate(const CLI::App& command, const ParsedLine& line, const GateArguments& gate,
                              const Settings& settings, InputArguments& inputs);

}  // namespace tpplan
