// Readers of a rule's options.
#pragma once

#include "plan/plan_reader.h"

namespace tpplan {

// Reads the value of one option (a StyleOption) into `options`, which is unchanged after an error.
void read_option(PlanReader& reader, YamlId key, YamlId value, uint16_t option, RuleOptions& options);

}  // namespace tpplan
