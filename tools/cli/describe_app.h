// The command line as plain data, from which completions and the manual page are generated.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace tpplan {

struct OptionDescription {
  std::vector<std::string> names;  // "-o", "--output"; only the name of a positional argument
  bool is_positional = false;
  bool takes_value = false;
  std::string value;  // "FILE"
  std::string help;
  std::string variable;              // environment variable that sets it
  std::vector<std::string> choices;  // the accepted values, if they are limited
};

struct CommandDescription {
  std::string name, help;
  std::vector<OptionDescription> options;
  std::vector<CommandDescription> commands;
};

[[nodiscard]] CommandDescription describe_app(const CLI::App& app);

// Returns an error with the nearest command if the first word of the line (apart from flags and their values) is no
// command. Empty if it is a command or missing.
[[nodiscard]] std::string unknown_command(const CLI::App& app, int argc, const char* const* argv);

// Returns an error if the line has an option that its command lacks, with the nearest option or the commands that have
// it. Empty if there is no such option, or no command.
[[nodiscard]] std::string unknown_option(const CLI::App& app, int argc, const char* const* argv);

// Returns a completion script for "bash", "zsh" or "fish"; empty for any other shell.
[[nodiscard]] std::string completion_script(const CommandDescription& program, const std::string& shell);

// Returns the manual page in roff, section 1. `footer`: the section about exit status. `files`: the section FILES, or
// "".
[[nodiscard]] std::string manual_page(const CommandDescription& program, const std::string& version,
                                      const std::string& footer, const std::string& files);

}  // namespace tpplan
