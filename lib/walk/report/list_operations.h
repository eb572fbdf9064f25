// The walk as text, one line for each event: `--print operations`. The functions do nothing unless WalkOptions::listing
// is set.
#pragma once

#include <string_view>

#include "walk/state/walk_state.h"

namespace tpplan {

// Writes the axes that are walked together.
void list_axes(Walk& walk);

// Writes the values that a style changes at the entry or exit of a module.
void list_boundary(Walk& walk, const GraphNode& node);

// Writes a value with its layout: "model.norm  enters  [2, 16, 128]  dim 1: 0..7 | 8..15, a DTensor Shard(1)".
void list_value(Walk& walk, ModuleId module, std::string_view what, SlotId slot);

// Writes a leaf, such as an input or a parameter, with its name.
void list_leaf(Walk& walk, const GraphLeaf& leaf);

// Writes the results of an operation.
void list_operation(Walk& walk, const GraphNode& node);

// Writes a collective.
void list_call(Walk& walk, const CollectiveCall& call);

// Writes the final state of a parameter's gradient: "complete", "a term of an open sum".
void list_gradient(Walk& walk, ParamId param, std::string_view state);

}  // namespace tpplan
