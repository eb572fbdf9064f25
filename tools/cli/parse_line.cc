#include "parse_line.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "describe_app.h"
#include "line_errors.h"
#include "terminal.h"

namespace tpplan {
namespace {

struct NamedOption {
  CLI::Option* option;
  std::string variable;
};

// Removes the environment variables of all options from CLI11.
void take_variables(CLI::App& app, std::vector<NamedOption>& taken) {
  for (CLI::Option* option : app.get_options()) {
    if (option->get_envname().empty()) continue;
    taken.push_back({option, option->get_envname()});
    option->envname("");
  }
  for (CLI::App* command : app.get_subcommands(nullptr)) take_variables(*command, taken);
}

void restore_variables(const std::vector<NamedOption>& taken) {
  for (const NamedOption& named : taken) named.option->envname(named.variable);
}

// Returns the error of a value from an environment variable, without the name of the flag.
std::string fault_of(const CLI::Option& option, const CLI::ParseError& error) {
  if (option.get_items_expected_max() == 0) return "expected true or false";
  const std::string what = error.what(), name = option.get_name() + ": ";
  return what.starts_with(name) ? what.substr(name.size()) : what;
}

void apply_variables(CLI::App& app, std::set<const CLI::Option*>& applied) {
  for (CLI::Option* option : app.get_options()) {
    const char* value =
        option->count() > 0 || option->get_envname().empty() ? nullptr : std::getenv(option->get_envname().c_str());
    if (value == nullptr || *value == '\0') continue;
    try {
      option->add_result(value);
      option->run_callback();
    } catch (const CLI::ParseError& error) {
      throw CLI::ValidationError(option->get_envname() + "=" + value, fault_of(*option, error));
    }
    applied.insert(option);
  }
}

}  // namespace

ParsedLine parse_line(CLI::App& app, int argc, char** argv) {
  ParsedLine line;
  std::string message = unknown_command(app, argc, argv);
  if (message.empty()) message = unknown_option(app, argc, argv);
  if (!message.empty()) {
    print(STDERR_FILENO, app.get_name() + ": error: " + message + "\n");
    line.status = kWrongLine;
    return line;
  }
  std::vector<NamedOption> taken;
  take_variables(app, taken);
  try {
    try {
      app.parse(argc, argv);
    } catch (...) {
      restore_variables(taken);  // help lists them
      throw;
    }
    restore_variables(taken);
    apply_variables(app, line.from_variables);
    for (CLI::App* command : app.get_subcommands()) apply_variables(*command, line.from_variables);
  } catch (const CLI::ParseError& error) {
    std::ostringstream out, err;
    line.status = app.exit(error, out, err) == 0 ? 0 : kWrongLine;  // CLI11's exit codes begin at 100
    print(STDOUT_FILENO, out.str());
    print(STDERR_FILENO, *line.status == 0 ? err.str() : describe_parse_error(app, error));
  }
  return line;
}

}  // namespace tpplan
