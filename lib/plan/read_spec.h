// Readers of a rule's spec: one entry for each dim.
#pragma once

#include <optional>

#include "plan/plan_reader.h"

namespace tpplan {

// Reads one entry: null, an axis, or a list of axes. Returns false after reporting an error.
[[nodiscard]] bool read_spec_entry(PlanReader& reader, YamlId id, DimAxes& axes);

// Reads a spec. Returns nullopt after reporting an error.
[[nodiscard]] std::optional<SpecTemplate> read_spec(PlanReader& reader, YamlId id);

}  // namespace tpplan
