// The error type of all parts of the executor.
#pragma once

#include <string>
#include <string_view>

#include "diagnostics/diagnostics.h"

namespace tpplan {

// An error of a job. It is thrown where it occurs and caught where the work of a thread or a rank ends, which passes it
// on unchanged. Names in its texts are escaped, except in `place`, which is escaped when it is printed.
struct Fault {
  Code code{};
  std::string message;  // the observation with its numbers; lower case, no full stop
  std::string help;     // one action; may be empty
  std::string place;    // the file or folder of the error; empty for the job
  int rank = -1;        // the failed or missing rank; -1 for none
  std::string step;     // progress of that rank: "step 5 (load x)", "its start"; empty if the message has it
};

// Returns the exception of the current `catch` block as a Fault. Converts exceptions of libraries: std::bad_alloc to
// TP8012, all others to TP8015.
[[nodiscard]] Fault current_error();

// Returns an error on one line, for logs and tests: "rank 2 failed at step 5 (load x): the disk is full", followed by a
// colon and the help.
[[nodiscard]] std::string to_text(const Fault& fault);

// Returns the exit status of an error: 1, 2 or 3, as for diagnostics; 0 for a code that is a warning.
[[nodiscard]] int exit_status(const Fault& fault);

}  // namespace tpplan
