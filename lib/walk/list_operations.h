// The walk as text, a line for each thing that happened: `--print operations`. Nothing is written unless asked for
// (WalkOptions::listing).
#pragma once

#include <string_view>

#include "walk/walk_state.h"

namespace tpplan {

// The axes that are walked together.
void list_axes(Walk& walk);

// What a style takes or leaves where a module begins or ends, if it changes anything.
void list_boundary(Walk& walk, const GraphNode& node);

// A value with what ranks hold of it: "model.norm  enters  [2, 16, 128]  dim 1: 0..7 | 8..15, a DTensor Shard(1)".
void list_value(Walk& walk, ModuleId module, std::string_view what, SlotId slot);

// Leaves: inputs and parameters, with their names.
void list_leaf(Walk& walk, const GraphLeaf& leaf);

// What an operation made.
void list_operation(Walk& walk, const GraphNode& node);

// A collective where it happens.
void list_call(Walk& walk, const CollectiveCall& call);

// A parameter's gradient, once it is complete: "complete", "a term of an open sum".
void list_gradient(Walk& walk, ParamId param, std::string_view state);

}  // namespace tpplan
