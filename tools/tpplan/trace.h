// What `-v` says while the program works.
#pragma once

#include <string_view>

namespace tpplan {

// Says one step with the milliseconds since the start of the program, on standard error. Does nothing unless `verbose`.
void trace(bool verbose, std::string_view step, std::string_view text);

}  // namespace tpplan
