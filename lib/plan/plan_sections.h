// The readers of a plan's sections: one function for each key, in a separate file. They edit the plan and report into
// the reader.
#pragma once

#include "plan/plan_reader.h"

namespace tpplan {

// read_mesh.cc. It runs first, because other keys name axes. use_given_mesh sets the mesh of the command line if the
// plan has none; diagnostics about its axes have the span of `id`.
void read_mesh(PlanReader& reader, YamlId id, const MeshSizes& replaced);
void use_given_mesh(PlanReader& reader, YamlId id, const MeshSizes& given);

// read_rules.cc: `tp_plan`, and rules inside `blocks`.
void read_rules(PlanReader& reader, YamlId id);
void read_blocks(PlanReader& reader, YamlId id);
// True if the value can only be that of a rule: the name of a style, or a mapping with `style` or `spec`.
[[nodiscard]] bool is_rule_value(const PlanReader& reader, YamlId value);

// Each is in the file of its name.
void read_data(PlanReader& reader, YamlId id);
void read_loss(PlanReader& reader, YamlId id);
void read_fsdp(PlanReader& reader, YamlId id);
void read_local_attributes(PlanReader& reader, YamlId id);
void read_init(PlanReader& reader, YamlId id);
void read_suppressions(PlanReader& reader, YamlId id);

}  // namespace tpplan
