// Progress messages of `-v`.
#pragma once

#include <string_view>

namespace tpplan {

// Prints a step with the milliseconds since the start of the program to standard error. Does nothing unless `verbose`.
void trace(bool verbose, std::string_view step, std::string_view text);

}  // namespace tpplan
