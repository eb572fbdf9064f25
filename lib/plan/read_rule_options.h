// The options that a rule carries beside its style.
#pragma once

#include "plan/plan_reader.h"

namespace tpplan {

// Reads the value of one option (a StyleOption) into `options`, which it leaves alone after reporting a fault.
void read_option(PlanReader& reader, YamlId key, YamlId value, uint16_t option, RuleOptions& options);

}  // namespace tpplan
