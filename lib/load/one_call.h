// A call of the C interface: what its work throws becomes its status and the text that tpplan_load_error returns.
#pragma once

#include <string>
#include <utility>

#include "load/load_state.h"

namespace tpplan {

// Texts that take no memory.
inline constexpr const char* kNoMemory = "tpplan_load: error[TP8012]: out of memory\n";
inline constexpr const char* kBusy = "tpplan_load: error: another call reads or writes by it, and has not come back\n";

// The status, after its text.
[[nodiscard]] int keep_error(tpplan_load& load, std::string text, int status);
// The text and status of the exception that is under way.
[[nodiscard]] int keep_current(tpplan_load& load);

// Runs a call's work: what it throws becomes its status and text.
template <typename Work>
[[nodiscard]] int guarded(tpplan_load& load, Work work) noexcept {
  load.said = "";
  try {
    try {
      work();
      load.said = "";  // a call that came meanwhile may have been refused
      return TPPLAN_LOAD_OK;
    } catch (...) {
      return keep_current(load);
    }
  } catch (...) {  // no memory to say what was wrong
    load.said = kNoMemory;
    return TPPLAN_LOAD_LIMIT;
  }
}

// Of what reads or writes one call is under way at a time: another one, from a callback or a thread, is refused, and
// finds what it says in a text that is nobody's.
template <typename Work>
[[nodiscard]] int alone(tpplan_load& load, Work work) noexcept {
  if (load.is_busy.exchange(true)) {
    load.said = kBusy;
    return TPPLAN_LOAD_INPUT;
  }
  const int status = guarded(load, std::move(work));
  load.is_busy = false;
  return status;
}

}  // namespace tpplan
