// What the parts of a walk share. Only data; the functions on it are in headers of their own: slots.h, tape.h,
// causes.h, report/append_call.h.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "diagnostics/diagnostics.h"
#include "model/model_graph.h"
#include "ops/op_rules.h"
#include "plan/tp_plan.h"
#include "resolve/infer/infer_boundaries.h"
#include "resolve/infer/sharding_table.h"
#include "resolve/infer/walked_gradients.h"
#include "resolve/match/match_table.h"
#include "sharding/collective_call.h"
#include "walk/layers/model_tables.h"
#include "walk/state/declared_placements.h"
#include "walk/state/runtime_row.h"
#include "walk/state/walk_memory.h"

namespace tpplan {

// How the results of a node on shards of the data dim are determined.
enum class ShardedResult : uint8_t {
  ByRule,
  Right,  // right, whatever the rule reports
  Range,  // right, and sharded as the data dim: it counts the elements of that dim
  Skip,   // the node enters a module that computes each token separately: outputs are sharded as inputs of their shape
};

// What is walked, and how.
struct WalkInput {
  const TpPlan& plan;
  const ModelGraph& model;
  const OpGraph& graph;
  const MatchTable& matches;
  const ShardingTable& shardings;
  const BoundaryTable& boundaries;
  const ModelTables& model_tables;
  const RuntimeRow& runtime;
  std::vector<AxisId> axes;       // walked axes in mesh order; ranks are those of the mesh of these axes
  std::vector<AxisId> data_axes;  // axes whose calls are listed (walk/run/data_axes.cc); ranks are identical along them
  size_t ranks = 1;               // of `axes`
  bool infer = false;
  std::optional<Loss> loss;  // absent: the plan has no loss
  int data_dim = -1;         // the dim of inputs that all walked axes shard; -1: inputs are replicated
  int64_t data_size = 0;     // the size of that dim; inputs of other sizes are replicated
  std::vector<ShardedResult> sharded_result_of;  // by node; empty: all by rule
};

// The results of a walk.
struct WalkOutput {
  Diagnostics& diagnostics;
  std::string* listing = nullptr;                      // nullptr: not requested
  std::vector<Example>* examples = nullptr;            // nullptr: not requested
  StepTrace* trace = nullptr;                          // nullptr: not requested
  std::vector<WalkedGradient>* gradients = nullptr;    // of boundaries; nullptr: not requested
  std::vector<WalkedPlacement>* placements = nullptr;  // that override declared layouts; nullptr: not requested
  std::vector<Cause> causes;
  std::map<std::string, ReportedCause> found;  // by deduplication key of the diagnostic
  uint32_t crash = kNoId;                      // into causes: the error that ends the run
  size_t reports = 0;                          // number of reported causes
  std::vector<CollectiveCall> calls;
  std::vector<ModuleId> call_modules;            // by call
  uint32_t repeated = 0, repeated_backward = 0;  // number of layers that were skipped
};

struct Walk {
  const WalkInput& in;
  WalkMemory& memory;
  WalkOutput& out;
};

[[nodiscard]] inline ShardedResult sharded_result_of(const Walk& walk, uint32_t node) {
  return walk.in.sharded_result_of.empty() ? ShardedResult::ByRule : walk.in.sharded_result_of[node];
}

struct Backward {
  Walk& walk;
  std::vector<Grad>& grads;          // by slot
  std::vector<uint32_t>& first_use;  // by slot: the last tape entry in backward order that adds to its gradient
};

}  // namespace tpplan
