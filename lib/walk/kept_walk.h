// What walks of one model leave to the next: what they found out, and their memory.
#pragma once

#include <cstdint>
#include <vector>

#include "walk/grad.h"
#include "walk/walk_state.h"
#include "walk/walk_tables.h"

namespace tpplan {

// What a walk writes. Only the memory is kept: each walk begins with nothing in it.
struct WalkMemory {
  std::vector<Slot> slots;
  std::vector<SlotId> slot_of;
  std::vector<SpreadId> layout_of;
  std::vector<uint32_t> size_numbers;
  std::vector<RuleId> rule_of_module;
  std::vector<ValueId> value_of_param;
  std::vector<RuleId> sum_rule;
  std::vector<TapeEntry> tape;
  std::vector<TapeSlot> tape_slots;
  std::vector<Segment> segments;
  std::vector<Grad> grads;
  std::vector<uint32_t> first_use;
  std::vector<uint8_t> reached;        // by slot: a gradient comes to it
  std::vector<ParamId> param_of_slot;  // of several the first
  StepTrace trace;                     // of a judgement that was taken back
};

struct KeptWalk {
  WalkTables tables;
  WalkMemory memory;
};

}  // namespace tpplan
