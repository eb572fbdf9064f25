// The input of check_neighbours, with queries on rules that shard parameters.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "resolve/infer/sharding_table.h"

namespace tpplan {

// How a linear layer uses shards of the last dim over the rule's axis: Outputs returns them, Expects receives them.
enum class ShardUse : uint8_t { None, Outputs, Expects };

struct Neighbours {
  const TpPlan& plan;
  const ModelGraph& graph;
  const MatchTable& matches;
  const ShardingTable& shardings;
  Diagnostics& diagnostics;
  std::vector<RuleId> rules;        // by module: the rule whose style shards its parameters, or kNoRule
  std::vector<bool> redistributes;  // by module: a rule redistributes its outputs
};

// True if outputs of a module under this rule are sharded along their last dim.
[[nodiscard]] bool stays_sharded(const PlanRule& rule);
[[nodiscard]] ShardUse shard_use_of(const Neighbours& n, ModuleId module);

// True for a module of a numbered list with a neighbour of the same type. Activations between such blocks are assumed
// to be replicated.
[[nodiscard]] bool is_repeated_block(const ModelGraph& graph, ModuleId id);

// Returns help text that makes a value replicated outside the module: the style if the dialect has it, else the option.
[[nodiscard]] std::string replicate_help(const TpPlan& plan, std::string_view style, std::string_view option);

}  // namespace tpplan
