// Errors for command lines that CLI11 rejects, with the correct form.
#pragma once

#include <string>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace tpplan {

// Returns one line with the error, and one that refers to the help of the command.
[[nodiscard]] std::string describe_parse_error(const CLI::App& app, const CLI::ParseError& error);

}  // namespace tpplan
