// `tpplan check --fix`: what findings propose, carried out on the plan's file.
#pragma once

#include "commands.h"

namespace tpplan {

// Carries out the edits of all findings, and of those that come up then; prints the difference to `descriptor`, and
// writes the plan unless `dry`. An exit status; what cannot be read is left to who checks.
[[nodiscard]] int fix_plan(const InputArguments& inputs, bool dry, int descriptor);

}  // namespace tpplan
