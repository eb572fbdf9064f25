// `tpplan check` without a model and a plan: runs all `checks` of `.tpplan.yaml`.
#pragma once

#include "commands.h"
#include "render/formats.h"
#include "use_baseline.h"

namespace tpplan {

// Checks every model with every plan on every mesh and prints one report. A diagnostic that several meshes share
// appears once. Paths are relative to the folder of the settings file. Returns the largest exit status.
[[nodiscard]] int check_project(const CheckArguments& arguments, const Format& format, const CommonArguments& common,
                                BaselineUse& baseline);

}  // namespace tpplan
