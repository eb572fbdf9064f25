// What the parts of a walk share: values by slot, the tape, what was found.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ops/op_rules.h"
#include "walk/style_programs.h"
#include "walk/walk_graph.h"

namespace tpplan {

using SlotId = uint32_t;

// A value on its way: the two ids of a value at a boundary that no style touches share one slot, and a style's steps
// have slots of their own.
struct Slot {
  SpreadId layout = 0;
  ValueId value = 0;  // one that has its shape and dtype
  bool requires_grad = false;
  RuleId origin = kNoRule;  // the rule whose cut or boundary this layout comes from
  uint32_t cause = kNoId;   // into Walk::causes: why the value is wrong
};

enum class TapeKind : uint8_t { Op, FromLocal, ToLocal, Redistribute, SumGradient, SumValue, SumTailGradient, Divide };

struct TapeEntry {
  TapeKind kind = TapeKind::Op;
  uint32_t node = kNoId;                // Op
  uint32_t in_begin = 0, in_end = 0;    // into tape_slots, with the layouts that the operation saw
  uint32_t out_begin = 0, out_end = 0;  // into tape_slots
  uint32_t segments_begin = 0, segments_end = 0;
  bool segments_are_arguments = false;
  Placement gradient{};  // ToLocal: what the gradient is taken for; FromLocal: what it is brought to
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
  bool unknown = false;  // no rule: not known to be wrong
};

// A module that was entered and not yet left.
struct ModuleFrame {
  ModuleId module = kNone;
  RuleId rule = kNoRule;
  const StyleProgram* program = nullptr;
  bool no_grad = false;
  bool fast = false;                               // on the path of a Linear without gradients
  std::vector<std::pair<ValueId, SlotId>> hidden;  // parameters that the module sees otherwise, and what they were
  SlotId bias = kNoId;                             // that is added after the sum
};

struct MemoEntry {
  std::vector<SpreadId> outs;
  std::vector<Segment> segments;
  bool segments_are_arguments = false, is_write = false, unknown = false;
  std::string crash, wrong;
  Code code{};
};

struct Walk {
  const TpPlan& plan;
  const ModelGraph& model;
  const OpGraph& graph;
  const MatchTable& matches;
  const ShardingTable& shardings;
  Diagnostics& diagnostics;
  AxisId axis = 0;
  size_t ranks = 1;
  PlanRuntime runtime = PlanRuntime::Transformers;
  bool infer = false;
  int64_t rope_dim = 0;  // `qk_rope_head_dim` of the model's configuration; 0: it has none

  SpreadTable table;
  std::vector<Slot> slots;
  std::vector<SlotId> slot_of;           // by value
  std::vector<SpreadId> layout_of;       // by value
  std::vector<SpreadId> whole_of_shape;  // by shape
  std::vector<std::vector<int64_t>> numbers;
  std::map<std::vector<int64_t>, uint32_t> number_index;
  std::vector<uint32_t> size_numbers;    // by size entry; kNoId: not worked out yet
  std::vector<uint32_t> traced_numbers;  // by size entry
  std::unordered_map<std::string, MemoEntry> memo;

  std::vector<RuleId> rule_of_module;   // by ModuleId
  std::vector<ValueId> value_of_param;  // by ParamId, kNoId where the graph does not use it
  std::vector<RuleId> sum_rule;         // by value of a parameter: whose style sums its gradient once it is complete
  std::vector<ModuleFrame> frames;
  std::vector<ModuleId> module_of_string;  // by StringId, kNone where it is no module

  std::vector<TapeEntry> tape;
  std::vector<TapeSlot> tape_slots;
  std::vector<Segment> segments;

  std::vector<Cause> causes;
  uint32_t crash = kNoId;  // into causes: where the run ends
  std::vector<ForecastCall> calls;
};

// ---- slots ----
[[nodiscard]] SlotId new_slot(Walk& walk, Slot slot);
void bind(Walk& walk, ValueId value, SlotId slot);
inline const Spread& layout_of(const Walk& walk, SlotId slot) { return walk.table.layouts[walk.slots[slot].layout]; }
[[nodiscard]] inline std::span<const int64_t> shape_of(const Walk& walk, SlotId slot) {
  return shape_of(walk.graph, walk.slots[slot].value);
}
[[nodiscard]] bool records_gradients(const Walk& walk);
[[nodiscard]] ModuleId module_at(const Walk& walk);
[[nodiscard]] uint32_t number_id(Walk& walk, std::vector<int64_t> number);

// ---- findings ----
[[nodiscard]] uint32_t add_cause(Walk& walk, Cause cause);
void crash_at(Walk& walk, Code code, std::string reason, RuleId rule, RuleId partner = kNoRule, std::string op = {});
void record_call(Walk& walk, bool backward, CollectiveKind kind, ModuleId module, std::vector<int64_t> shape,
                 StringId dtype);
void report_cause(Walk& walk, const Cause& cause, std::string_view fails);

// ---- boundaries.cc ----
void enter_module(Walk& walk, const GraphNode& node);
void exit_module(Walk& walk, const GraphNode& node);
// A parameter's layout under the plan, and whether it is a DTensor.
[[nodiscard]] Spread param_layout(Walk& walk, ParamId param, RuleId& rule);
[[nodiscard]] SlotId redistribute_slot(Walk& walk, SlotId slot, const Placement& to, bool on_tape);
void record_step(Walk& walk, TapeKind kind, SlotId in, SlotId out, Placement gradient, RuleId rule);

// ---- operations.cc ----
void run_node(Walk& walk, const GraphNode& node, uint32_t index);
void run_on_dtensors(Walk& walk, const GraphNode& node, uint32_t index);
[[nodiscard]] std::vector<ValueId> values_in(const Walk& walk, const GraphNode& node);
[[nodiscard]] OpCall call_of(Walk& walk, const GraphNode& node);
void finish_op(Walk& walk, const GraphNode& node, uint32_t index, const MemoEntry& entry,
               std::span<const TapeSlot> ins);

// ---- backward.cc ----
void walk_backward(Walk& walk, bool report_findings);

[[nodiscard]] Placement normalised(const Placement& placement, size_t ndim);
[[nodiscard]] Placement for_gradient(const Placement& placement);  // an open sum's gradient is whole

}  // namespace tpplan
