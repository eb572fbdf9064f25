// Reads the command line and environment variables into the arguments.
#pragma once

#include <optional>
#include <set>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace tpplan {

inline constexpr int kWrongLine = 2;  // exit status of a usage error

struct ParsedLine {
  std::optional<int> status;                    // exit status, if help was printed or an error was reported
  std::set<const CLI::Option*> from_variables;  // the options that an environment variable set
};

// Parses the line. Then each option of its commands that no flag has set takes the value of its environment variable,
// unless that is missing or empty. An invalid value is reported with the name of the variable. (CLI11 would also apply
// variables to options of other commands, which share targets with flags of this line.)
[[nodiscard]] ParsedLine parse_line(CLI::App& app, int argc, char** argv);

}  // namespace tpplan
