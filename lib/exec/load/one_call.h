// Error handling of the C interface: converts exceptions to a status, and to the text that tpplan_load_error returns.
#pragma once

#include <string>
#include <utility>

#include "exec/load/load_state.h"

namespace tpplan {

// Static texts, which need no memory.
inline constexpr const char* kNoMemory = "tpplan_load: error[TP8012]: out of memory\n";
inline constexpr const char* kBusy = "tpplan_load: error: another call with this handle has not returned\n";

// Stores the error text and returns `status`.
[[nodiscard]] int store_error(tpplan_load& load, std::string text, int status);
// Stores the text of the current exception and returns its status.
[[nodiscard]] int store_current_error(tpplan_load& load);

// Executes a call and returns its status. Stores the text of an exception.
template <typename Work>
[[nodiscard]] int catch_errors(tpplan_load& load, Work work) noexcept {
  load.said = "";
  try {
    try {
      work();
      load.said = "";  // a concurrent call may have stored kBusy
      return TPPLAN_LOAD_OK;
    } catch (...) {
      return store_current_error(load);
    }
  } catch (...) {  // no memory to describe the error
    load.said = kNoMemory;
    return TPPLAN_LOAD_LIMIT;
  }
}

// Executes a call that reads or saves and returns its status. Only one may be in progress: a concurrent call, from a
// callback or another thread, is rejected with a static text.
template <typename Work>
[[nodiscard]] int run_exclusively(tpplan_load& load, Work work) noexcept {
  if (load.is_busy.exchange(true)) {
    load.said = kBusy;
    return TPPLAN_LOAD_INPUT;
  }
  const int status = catch_errors(load, std::move(work));
  load.is_busy = false;
  return status;
}

}  // namespace tpplan
