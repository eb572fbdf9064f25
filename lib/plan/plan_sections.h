// The keys of a plan whose values are more than a word: one function each, with a file of its own. They edit the plan
// and report into the reader.
#pragma once

#include "plan/plan_reader.h"
#include "plan/read_plan.h"

namespace tpplan {

// read_mesh.cc. Every other key may name an axis and is read after it. A plan without a mesh takes the one that is
// given beside it; findings about its axes point at `id`.
void read_mesh(PlanReader& reader, YamlId id, const MeshSizes& replaced);
void take_mesh(PlanReader& reader, YamlId id, const MeshSizes& given);

// read_rules.cc: `tp_plan`, and rules inside `blocks`.
void read_rules(PlanReader& reader, YamlId id);
void read_blocks(PlanReader& reader, YamlId id);

// A file of their name each.
void read_data(PlanReader& reader, YamlId id);
void read_loss(PlanReader& reader, YamlId id);
void read_fsdp(PlanReader& reader, YamlId id);
void read_init(PlanReader& reader, YamlId id);
void read_suppressions(PlanReader& reader, YamlId id);

}  // namespace tpplan
