// Opening: the manifest is read, the weights are looked at, and what the rank holds of each tensor is known.
#pragma once

#include <string>

#include "load/load_state.h"

namespace tpplan {

// Several findings at once.
struct Findings {
  std::string text;
  int status = TPPLAN_LOAD_WRONG;
};

// The text of the manifest, by its path or as it is given. A Refusal or a Fault where there is none.
void read_source(tpplan_load& load, const tpplan_load_source& source);

// All that is wrong, or nothing; warnings are kept. A Refusal where what is asked for cannot be had.
[[nodiscard]] Findings open_text(tpplan_load& load, const tpplan_load_source& source);

}  // namespace tpplan
