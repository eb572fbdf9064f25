// What went wrong in a job of the executor: the one form in which all of its parts say so.
#pragma once

#include <string>
#include <string_view>

#include "diagnostics/diagnostics.h"

namespace tpplan {

// Thrown by whatever cannot do its work; caught where a thread's or a rank's work ends, and handed on as it is. Texts
// are for people: names in them are escaped, except `place`, which is escaped when it is shown.
struct Fault {
  Code code{};
  std::string message;  // lower case, no full stop, what was observed with its numbers
  std::string help;     // one action; may be empty
  std::string place;    // the file or folder that it is about; empty: the job
  int rank = -1;        // that failed, or whom the others miss; -1: none in particular
  std::string step;     // where that rank was: "step 5 (load x)", "its start"; empty: the message says it
};

// Why the code in a `catch` block was left: a Fault as it is, what a library threw as one (memory: TP8012, all else:
// TP8015).
[[nodiscard]] Fault current_fault();

// "rank 2 failed at step 5 (load x): the disk is full", in one line with the help behind a colon, for logs and tests.
[[nodiscard]] std::string to_text(const Fault& fault);

// What a fault means for the exit status: 1, 2 or 3, as exit_status says of diagnostics. Warnings: 0.
[[nodiscard]] int exit_status(const Fault& fault);

}  // namespace tpplan
