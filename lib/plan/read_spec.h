// A rule's spec, as a plan writes it: one entry a dim.
#pragma once

#include <optional>

#include "plan/plan_reader.h"

namespace tpplan {

// Absent after reporting what is wrong with it.
[[nodiscard]] std::optional<SpecTemplate> read_spec(PlanReader& reader, YamlId id);

}  // namespace tpplan
