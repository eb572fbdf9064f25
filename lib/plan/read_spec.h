// A rule's spec, as a plan writes it: one entry a dim.
#pragma once

#include <optional>

#include "plan/plan_reader.h"

namespace tpplan {

// One entry: null, an axis, or a list of them. False after reporting what is wrong with it.
[[nodiscard]] bool read_spec_entry(PlanReader& reader, YamlId id, DimAxes& axes);

// Absent after reporting what is wrong with it.
[[nodiscard]] std::optional<SpecTemplate> read_spec(PlanReader& reader, YamlId id);

}  // namespace tpplan
