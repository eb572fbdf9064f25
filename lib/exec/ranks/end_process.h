// Immediate exit of a process that cannot be shut down normally.
#pragma once

#include "diagnostics/fault.h"

namespace tpplan {

// Sets how end_process reports the fault; the default is a human-readable line on standard error. @pre no rank is
// running.
void set_fault_reporter(void (*say)(const Fault& fault));

// Installs a terminate handler: an uncaught std::bad_alloc in any thread then ends the process with TP8012 instead of
// an abort.
void end_on_bad_alloc();

// Reports the fault, removes unfinished files (base/temporary_files.h) and ends the process with the fault's exit
// status, whatever its other threads do.
[[noreturn]] void end_process(const Fault& fault);

}  // namespace tpplan
