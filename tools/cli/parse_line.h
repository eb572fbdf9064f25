// The command line and the environment into the variables behind the options.
#pragma once

#include <optional>
#include <set>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace tpplan {

inline constexpr int kWrongLine = 2;  // the exit status that says so

struct ParsedLine {
  std::optional<int> status;  // to exit with: help was asked for, or something is wrong, and that was said
  std::set<const CLI::Option*> from_variables;  // the options that an environment variable set
};

// Parses the line; then each option of the commands that stand on it, which no flag set, takes the value of its
// environment variable, where that is neither missing nor empty. A value that the option does not take is said with the
// variable's name. (CLI11 would apply variables to the options of all other commands too, behind the flags that share
// their targets.)
[[nodiscard]] ParsedLine parse_line(CLI::App& app, int argc, char** argv);

}  // namespace tpplan
