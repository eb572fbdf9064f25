// `tpplan check` without a model and a plan: all that `.tpplan.yaml` names.
#pragma once

#include "commands.h"
#include "render/formats.h"
#include "use_baseline.h"

namespace tpplan {

// Checks every model with every plan on every mesh, and writes the findings of all of them as one report: one that
// several meshes have stands there once. Paths are those from the settings file's folder. The worst exit status.
[[nodiscard]] int check_project(const CheckArguments& arguments, const Format& format, const CommonArguments& common,
                                BaselineUse& baseline);

}  // namespace tpplan
