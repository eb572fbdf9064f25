// What is wrong with a command line that CLI11 does not take, said with what to write.
#pragma once

#include <string>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace tpplan {

// One line, and on the next one whose help to ask for.
[[nodiscard]] std::string describe_fault(const CLI::App& app, const CLI::ParseError& error);

}  // namespace tpplan
