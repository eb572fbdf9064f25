// The final sharding of each parameter, with its reason.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/keyed_hash.h"
#include "model/model_graph.h"
#include "plan/tp_plan.h"
#include "sharding/partition_spec.h"

namespace tpplan {

enum class Reason : uint8_t { Default, Rule, Fsdp, RuleAndFsdp, Tied };

// The result of apply_fsdp for a parameter.
enum class FsdpDecision : uint8_t { NotRequested, Sharded, AlreadyOnAxis, TooSmall, NoDim, NotSelected };

struct ParamSharding {
  uint32_t sharding = 0;  // into ShardingTable::shardings
  RuleId rule = kNoRule;
  Reason reason = Reason::Default;
  FsdpDecision fsdp = FsdpDecision::NotRequested;
  bool fits = true;  // false: the rule does not fit (already reported), and the parameter counts as replicated
};

// Shardings of all parameters. A model has few different ones, so each is interned.
struct ShardingTable {
  std::vector<Sharding> shardings;
  TextMap<std::string, uint32_t> index;
  std::vector<ParamSharding> params;                   // by ParamId
  std::vector<std::pair<ParamId, ParamId>> followers;  // tied parameter, the parameter that owns the tensor
};

// Returns the index of a sharding in the table, and adds it if it is missing.
[[nodiscard]] uint32_t intern(ShardingTable& table, const Sharding& sharding);

inline const Sharding& sharding_of(const ShardingTable& table, ParamId param) {
  return table.shardings[table.params[param].sharding];
}

// Returns the sharding without the axis that FSDP added.
[[nodiscard]] Sharding sharding_by_rule(const ShardingTable& table, const TpPlan& plan, ParamId param);

// Returns "rule", "fsdp", "rule+fsdp", "default" or "tied".
[[nodiscard]] std::string_view to_text(Reason reason);

// Returns the text of `--print shardings`: each parameter with its spec, placements, reason and rule.
[[nodiscard]] std::string dump(const ShardingTable& table, const TpPlan& plan, const ModelGraph& graph);

}  // namespace tpplan
