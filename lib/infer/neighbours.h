// What check_neighbours knows of each module, and asks of the rules that cut it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "infer/sharding_table.h"

namespace tpplan {

// What a linear layer does with the last dim of its values on the rule's axis.
enum class Pieces : uint8_t { None, Leaves, Takes };

struct Neighbours {
  const TpPlan& plan;
  const ModelGraph& graph;
  const MatchTable& matches;
  const ShardingTable& shardings;
  Diagnostics& diagnostics;
  std::vector<RuleId> rules;  // by module: the rule of a style that cuts its parameters, or kNoRule
  std::vector<bool> closed;   // by module: a rule looks after the values that leave it
};

// Whether the values that leave a module with this rule are cut along their last dim.
[[nodiscard]] bool stays_cut(const PlanRule& rule);
[[nodiscard]] Pieces pieces_of(const Neighbours& n, ModuleId module);

// True for one of several equal blocks in a list: values pass from one to the next whole.
[[nodiscard]] bool is_repeated_block(const ModelGraph& graph, ModuleId id);

// How a rule says that a value is whole outside: by a style where the dialect has it, else by an option.
[[nodiscard]] std::string make_whole(const TpPlan& plan, std::string_view style, std::string_view option);

}  // namespace tpplan
