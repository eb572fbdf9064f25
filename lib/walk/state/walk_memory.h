// What a walk writes: values by slot, the tape of its operations, causes of errors; and what the next walk reuses.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "diagnostics/diagnostics.h"
#include "ops/op_call.h"
#include "plan/tp_plan.h"
#include "resolve/infer/walked_gradients.h"
#include "walk/state/example_table.h"
#include "walk/state/grad.h"
#include "walk/state/local_facts.h"
#include "walk/state/module_program.h"
#include "walk/state/step_trace.h"
#include "walk/state/walk_tables.h"

namespace tpplan {

struct LayerStack;

using SlotId = uint32_t;

// A version of a value. The outer and inner id of a value at a boundary without a style share one slot; every step of a
// style makes a new slot.
struct Slot {
  ValueLayoutId layout = 0;
  ValueId value = 0;          // a value with its shape, and with its dtype if it was not cast
  std::string_view dtype{};   // its dtype if it differs from the value's
  RuleId typed_by = kNoRule;  // the rule that cast it to this dtype
  bool requires_grad = false;
  RuleId origin = kNoRule;  // the rule whose sharding or boundary determines the layout
  uint32_t cause = kNoId;   // into WalkOutput::causes: why the value is wrong
  ParamId held = kNone;     // a parameter sharded by tpplan's runtime, which operations see through a view
  // The origin of its memory, and the leaf or slot that it was made from (walk/state/step_trace.h).
  SlotMemory memory = SlotMemory::Result;
  bool is_leaf = false;
  ParamId param = kNone;
  SlotId from = kNoId;
};

enum class TapeKind : uint8_t {
  Op,               // of the graph
  FromLocal,        // local tensor to DTensor
  ToLocal,          // DTensor to local tensor
  Redistribute,     // of a DTensor, by a style
  SumGradient,      // the identity; all-reduces the gradient
  SumValue,         // all-reduce; the identity backward
  SumTailGradient,  // SumGradient of the last elements
  Divide,           // divides by the number of ranks
  Gather,           // gathers a fused result, segment by segment
  AddBias,          // adds the bias after the reduction
  Cast,             // to another dtype; casts the gradient back
  View,             // of a parameter sharded by tpplan's runtime
  Dispatch,         // sends tokens to the ranks of their experts: the identity (walk/run/dispatch.h)
  Combine           // returns the outputs of experts: the identity
};

struct TapeEntry {
  TapeKind kind = TapeKind::Op;
  uint32_t node = kNoId;                // Op
  uint32_t in_begin = 0, in_end = 0;    // into tape_slots, with the layouts at the time of the operation
  uint32_t out_begin = 0, out_end = 0;  // into tape_slots
  uint32_t segments_begin = 0, segments_end = 0;
  bool segments_are_arguments = false;
  DeclaredPlacements gradient;  // ToLocal: of the gradient as declared; FromLocal: that the gradient is redistributed
                                // to; Redistribute: of the input
  std::string_view dtype{};     // Redistribute: dtype in which the gradient is sent; empty: its dtype
  size_t axis = 0;              // index in WalkInput::axes, of a sum
  ModuleId module = kNone;
  RuleId rule = kNoRule;  // of the style
};

struct TapeSlot {
  SlotId slot = 0;
  ValueLayoutId layout = 0;
};

// Why a value is wrong or a run fails.
struct Cause {
  Code code{};
  std::string reason, op;
  ModuleId module = kNone;
  RuleId rule = kNoRule, partner = kNoRule;
  std::string layouts;      // of the operands
  std::string parameter{};  // whose gradient is wrong
  std::string help{};
  Example example;       // on two ranks (walk/report/example.h), on request
  bool unknown = false;  // no rule exists, so that the result may be right
};

// A reported cause, and the modules that have it.
struct ReportedCause {
  size_t index = 0;  // into Diagnostics::list
  std::set<ModuleId> modules;
};

// The traced dtype and the actual dtype of a value.
struct RetypedValue {
  std::string_view traced, now;
  RuleId rule = kNoRule;  // that cast it
};

// A module between its entry and its exit.
struct ModuleFrame {
  ModuleId module = kNone;
  RuleId rule = kNoRule;
  const TransformersSteps* program = nullptr;
  const ModuleProgram* steps = nullptr;  // of tpplan's runtime
  std::vector<RetypedValue> retyped;     // arguments whose dtype differs from the traced one
  bool wraps_plain_inputs = false;       // the module converts its plain inputs to DTensors
  bool no_grad = false;
  bool fast = false;                               // on the fast path of a Linear without gradients
  std::vector<std::pair<ValueId, SlotId>> hidden;  // values replaced during the forward, with the slots to restore
  SlotId bias = kNoId;                             // added after the sum
  SlotId chosen = kNoId;                           // the expert ids of the tokens, if tokens are dispatched
};

// The layout that a rule declares for a value, and the placement of the DTensor that overrides it.
struct OverriddenLayout {
  Placement declared, actual;
};

// The slot of a value after the steps of a style at a module boundary.
struct BoundarySlot {
  WalkedValue value;
  bool reduces = false;  // the backward of the steps reduces a partial gradient
  SlotId slot = 0;
  std::optional<OverriddenLayout> overridden;
};

// The gradients that have been added to a slot.
struct ArrivedGrads {
  bool is_there = false;
  AxisMask partial = 0;  // axes over which one of them is partial
};

// The sizes of all lists that a walk appends to, at the start of a layer.
struct LayerStart {
  uint32_t slots = 0, tape = 0, tape_slots = 0, segments = 0, trace_ops = 0, trace_slots = 0, boundary_slots = 0;
  size_t causes = 0, reports = 0, calls = 0;
};

// A stack of layers during the walk (walk/run/repeat_layers.h).
struct StackWalk {
  const LayerStack* stack = nullptr;
  std::vector<LayerStart> marks;  // by layer, at its start; the last mark is the end of the last layer
  std::vector<std::pair<SlotId, ValueLayoutId>> taken;  // state of LayerStack::taken at the start of the previous layer
  uint32_t first_identical = kNoId;                     // all layers from this one on repeat it
};

// The state of a walk while it runs, and the tables that the next walk of the model reuses. begin_walk clears all
// members except the tables and keeps their buffers.
struct WalkMemory {
  WalkTables tables;
  ValueLayoutTable table;  // the layouts whose ids are in `tables`

  std::vector<Slot> slots;
  std::vector<SlotId> slot_of;           // by value
  std::vector<ValueLayoutId> layout_of;  // by value
  std::vector<uint32_t> size_numbers;    // by size entry; kNoId: not evaluated yet

  std::map<uint32_t, DeclaredPlacements> declared_by_sharding;  // by index in ShardingTable, computed on request
  std::vector<RuleId> rule_of_module;                           // by ModuleId
  std::vector<std::vector<RuleId>> rules_of_module;  // by ModuleId, in plan order; of torch, which runs all hooks
  std::map<ParamId, SlotId> untied;                  // the separate tensor of each name of a tie that torch unties
  std::vector<LocalCounts> counts;                   // of the modules that divide attributes
  std::vector<uint32_t> counts_of_module;  // by ModuleId: into `counts`, or kNoId; empty: no module divides any
  ModulePrograms programs;                 // of tpplan's runtime
  std::vector<ValueId> value_of_param;     // by ParamId; kNoId if the graph does not use it
  std::vector<RuleId> sum_rule;            // by value of a parameter: the rule that all-reduces its complete gradient
  std::vector<ModuleFrame> frames;
  std::vector<StackWalk> stacks;  // empty: every layer is walked

  std::map<SlotId, LocalFact> facts;         // of shard_map: facts about a value besides its layout
  std::map<ValueId, ValueId> same_integers;  // of shard_map: the value with the same integers

  std::vector<TapeEntry> tape;
  std::vector<TapeSlot> tape_slots;
  std::vector<Segment> segments;

  std::vector<BoundarySlot> boundary_slots;  // see boundary_slots.h
  std::vector<ArrivedGrads> arrivals;        // by slot; if they are requested

  std::vector<Grad> grads;             // by slot
  std::vector<uint32_t> first_use;     // by slot
  std::vector<uint8_t> reached;        // by slot: it has a gradient
  std::vector<ParamId> param_of_slot;  // the first one if there are several
  StepTrace spare_trace;               // of a result that is no longer needed: its buffers are reused
};

}  // namespace tpplan
