// Exchange of keys and values among ranks with parts of one sequence, under torch's context_parallel() (torch 2.13,
// distributed/tensor/experimental/_context_parallel/_attention.py).
#pragma once

#include "walk/state/walk_state.h"

namespace tpplan {

// An attention with the slots of its keys and values.
struct SequenceExchange {
  bool backward = false;
  ModuleId module = kNone;
  SlotId key = kNoId, value = kNoId;
};

// Records the calls of an attention over the axis of `data.attention`. Records nothing if the plan has none, or if the
// runtime does not list calls over data axes.
void list_sequence_exchange(Walk& walk, const SequenceExchange& exchange);

// Records the forward calls of a node, if it is an attention.
void list_sequence_exchange(Walk& walk, const GraphNode& node);

}  // namespace tpplan
