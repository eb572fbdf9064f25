// `tpplan check --fix`: applies the edits of diagnostics to the plan's file.
#pragma once

#include "commands.h"

namespace tpplan {

// Applies the edits of all diagnostics, and repeats this for diagnostics that appear afterwards. Prints the diff to
// `descriptor` and writes the plan unless `dry`. Returns an exit status; the later check reports unreadable inputs.
[[nodiscard]] int fix_plan(const InputArguments& inputs, bool dry, int descriptor);

}  // namespace tpplan
