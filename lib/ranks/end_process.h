// The last word of a process that cannot be taken down in order.
#pragma once

#include "diagnostics/fault.h"

namespace tpplan {

// What end_process says, and how: a line for people on standard error without it. Set before there are ranks.
void set_last_word(void (*say)(const Fault& fault));

// From now on memory that runs out where nobody can answer for it, in any thread, ends the process with TP8012 in place
// of an abort.
void end_without_memory();

// Says the fault on standard error, takes away what is unfinished (base/unfinished.h) and ends the process with its
// status, whatever its threads are at.
[[noreturn]] void end_process(const Fault& fault);

}  // namespace tpplan
