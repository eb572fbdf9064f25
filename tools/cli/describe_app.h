// The command line as plain data, so that completions and the manual page are written from what the program really
// takes.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace tpplan {

struct OptionDescription {
  std::vector<std::string> names;  // "-o", "--output"; a positional has its name only
  bool is_positional = false;
  bool takes_value = false;
  std::string value;  // "FILE"
  std::string help;
  std::string variable;              // environment variable that sets it
  std::vector<std::string> choices;  // when only these are taken
};

struct CommandDescription {
  std::string name, help;
  std::vector<OptionDescription> options;
  std::vector<CommandDescription> commands;
};

[[nodiscard]] CommandDescription describe_app(const CLI::App& app);

// What is wrong with a command line whose first word, flags and their values aside, names no command of the program:
// with the nearest one that there is. Empty when the word is a command, or missing.
[[nodiscard]] std::string unknown_command(const CLI::App& app, int argc, const char* const* argv);

// What is wrong with a command line that holds an option which its command does not have: with the nearest one that it
// has, or the commands that have it. Empty when there is none, or no command.
[[nodiscard]] std::string unknown_option(const CLI::App& app, int argc, const char* const* argv);

// A completion script for "bash", "zsh" or "fish"; empty for any other shell.
[[nodiscard]] std::string completion_script(const CommandDescription& program, const std::string& shell);

// The manual page, in man's roff, section 1. `footer` says what the exit status means; `files` is the section FILES, or
// "".
[[nodiscard]] std::string manual_page(const CommandDescription& program, const std::string& version,
                                      const std::string& footer, const std::string& files);

}  // namespace tpplan
