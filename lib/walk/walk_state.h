// What the parts of a walk share: values by slot, the tape, what was found. Only data; the functions on it stand in
// headers of their own: slots.h, tape.h, causes.h, record_call.h.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/keyed_hash.h"
#include "ops/op_rules.h"
#include "walk/claims.h"
#include "walk/example_table.h"
#include "walk/local_facts.h"
#include "walk/model_tables.h"
#include "walk/runtimes.h"
#include "walk/step_trace.h"
#include "walk/style_programs.h"
#include "walk/walk_graph.h"
#include "walk/walk_tables.h"

namespace tpplan {

using SlotId = uint32_t;
struct WalkMemory;  // walk/kept_walk.h

// A value on its way: the two ids of a value at a boundary that no style touches share one slot, and a style's steps
// have slots of their own.
struct Slot {
  SpreadId layout = 0;
  ValueId value = 0;          // one that has its shape, and its dtype where nothing casts it
  std::string_view dtype{};   // its type, where it is not the value's
  RuleId typed_by = kNoRule;  // the rule that gave it this type
  bool requires_grad = false;
  RuleId origin = kNoRule;  // the rule whose cut or boundary this layout comes from
  uint32_t cause = kNoId;   // into Walk::causes: why the value is wrong
  ParamId held = kNone;     // a parameter that our runtime spread, and that operations see through a view
  // Where its memory comes from, of which leaf or of which slot it was made (walk/step_trace.h).
  SlotMemory memory = SlotMemory::Result;
  bool is_leaf = false;
  ParamId param = kNone;
  SlotId from = kNoId;
};

enum class TapeKind : uint8_t {
  Op,               // of the graph
  FromLocal,        // a DTensor made of what the rank holds
  ToLocal,          // and back
  Redistribute,     // of a DTensor, by a style
  SumGradient,      // the identity, whose gradient is summed
  SumValue,         // a sum, whose gradient is the identity
  SumTailGradient,  // SumGradient of the last elements
  Divide,           // by the number of ranks
  Gather,           // of a fused result, segment by segment
  AddBias,          // to a sum that is closed
  Cast,             // into another type; its gradient comes back in the old one
  View,             // of a parameter that our runtime spread
  Dispatch,         // of what goes to experts on all ranks: the identity (walk/dispatch.h)
  Combine           // of what comes from them: the same
};

struct TapeEntry {
  TapeKind kind = TapeKind::Op;
  uint32_t node = kNoId;                // Op
  uint32_t in_begin = 0, in_end = 0;    // into tape_slots, with the layouts that the operation saw
  uint32_t out_begin = 0, out_end = 0;  // into tape_slots
  uint32_t segments_begin = 0, segments_end = 0;
  bool segments_are_arguments = false;
  Claim
      gradient;  // ToLocal: what the gradient is taken for; FromLocal: what it is brought to; Redistribute: the input's
  std::string_view dtype{};  // Redistribute: in which the gradient is sent; empty: in its value's own
  size_t axis = 0;           // of the walk's, of a sum
  ModuleId module = kNone;
  RuleId rule = kNoRule;  // of the style
};

struct TapeSlot {
  SlotId slot = 0;
  SpreadId layout = 0;
};

// Why a value is wrong, or a run would fail.
struct Cause {
  Code code{};
  std::string reason, op;
  ModuleId module = kNone;
  RuleId rule = kNoRule, partner = kNoRule;
  std::string layouts;   // of the operands
  Example example;       // on two ranks (walk/example.h), where it is asked for
  bool unknown = false;  // no rule: not known to be wrong
};

// Where a cause that was reported stands, and the modules in which it was seen.
struct FoundCause {
  size_t index = 0;  // into Diagnostics::list
  std::set<ModuleId> modules;
};

// A type that was recorded, and the one that is there now.
struct Retyped {
  std::string_view recorded, now;
  RuleId rule = kNoRule;  // that gave it this type
};

// A module that was entered and not yet left.
struct ModuleFrame {
  ModuleId module = kNone;
  RuleId rule = kNoRule;
  const StyleProgram* program = nullptr;
  const ModuleProgram* steps = nullptr;  // of our own runtime
  std::vector<Retyped> retyped;          // what was given in another type than was recorded
  bool spreads = false;                  // made DTensors of its inputs by itself
  bool no_grad = false;
  bool fast = false;                               // on the path of a Linear without gradients
  std::vector<std::pair<ValueId, SlotId>> hidden;  // parameters that the module sees otherwise, and what they were
  SlotId bias = kNoId;                             // that is added after the sum
  SlotId chosen = kNoId;                           // the experts of each token, where tokens go to their ranks
};

// How much there is of everything that a walk writes, where a layer begins.
struct LayerMark {
  uint32_t slots = 0, tape = 0, tape_slots = 0, segments = 0, trace_ops = 0, trace_slots = 0;
  size_t causes = 0, reports = 0, calls = 0;
};

// A stack of layers as it is walked (walk/repeat_layers.h).
struct StackWalk {
  const LayerStack* stack = nullptr;
  std::vector<LayerMark> marks;                    // by layer, where it begins; the last is where the last one ends
  std::vector<std::pair<SlotId, SpreadId>> taken;  // of LayerStack::taken, where the layer before this one began
  uint32_t first_alike = kNoId;                    // from this layer on all did the same
};

struct Walk {
  const TpPlan& plan;
  const ModelGraph& model;
  const OpGraph& graph;
  const MatchTable& matches;
  const ShardingTable& shardings;
  const BoundaryTable& boundaries;
  Diagnostics& diagnostics;
  std::vector<AxisId> axes;       // that are walked, in mesh order: ranks are those of a mesh of these
  std::vector<AxisId> data_axes;  // whose calls are listed (walk/data_axes.cc); ranks do not differ along them
  size_t ranks = 1;
  const RuntimeRow& runtime;
  bool infer = false;
  const Loss* loss = nullptr;  // nullptr: the plan says nothing of it
  const ModelTables& model_tables;

  WalkTables& tables;
  SpreadTable& table;  // of these
  WalkMemory& memory;
  std::vector<Slot>& slots;             // these and the tape stand in `memory`, as do the numbers by id
  std::vector<SlotId>& slot_of;         // by value
  std::vector<SpreadId>& layout_of;     // by value
  std::vector<uint32_t>& size_numbers;  // by size entry; kNoId: not worked out yet

  std::map<uint32_t, Claim> claim_of_sharding;       // by number in ShardingTable, of those that were asked for
  std::vector<RuleId>& rule_of_module;               // by ModuleId
  std::vector<std::vector<RuleId>> rules_of_module;  // by ModuleId, in the plan's order; of torch, whose hooks add up
  std::map<ParamId, SlotId> untied;      // the tensor of each name, where torch made a tie's names tensors of their own
  ModulePrograms programs;               // of our own runtime
  std::vector<ValueId>& value_of_param;  // by ParamId, kNoId where the graph does not use it
  std::vector<RuleId>& sum_rule;         // by value of a parameter: whose style sums its gradient once it is complete
  std::vector<ModuleFrame> frames;

  std::map<SlotId, LocalFact> facts;         // of shard_map: what is known of a value besides its layout
  std::map<ValueId, ValueId> same_integers;  // of shard_map: the value of which this one has the integers

  std::vector<TapeEntry>& tape;
  std::vector<TapeSlot>& tape_slots;
  std::vector<Segment>& segments;

  std::vector<Cause> causes;
  std::map<std::string, FoundCause> found;  // by what makes two findings one
  uint32_t crash = kNoId;                   // into causes: where the run ends
  size_t reports = 0;                       // how often one was reported
  std::vector<CollectiveCall> calls;
  std::vector<ModuleId> call_modules;        // by call
  std::vector<StackWalk> stacks;             // empty: every layer is walked
  uint32_t repeated = 0, repeated_back = 0;  // layers that were not
  std::string* listing = nullptr;            // nullptr: nobody wants it
  std::vector<Example>* examples = nullptr;  // the same
  StepTrace* trace = nullptr;                // the same
};

}  // namespace tpplan
