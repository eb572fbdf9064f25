// How each parameter ends up cut, and why.
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

// What apply_fsdp did with a parameter.
enum class FsdpDecision : uint8_t { NotAsked, Sharded, AlreadyOnAxis, TooSmall, NoDim, NotSelected };

struct ParamSharding {
  uint32_t sharding = 0;  // into ShardingTable::shardings
  RuleId rule = kNoRule;
  Reason reason = Reason::Default;
  FsdpDecision fsdp = FsdpDecision::NotAsked;
  bool fits = true;  // where its rule does not fit, which has been reported, it counts as whole
};

// A model has few different shardings: each is kept once.
struct ShardingTable {
  std::vector<Sharding> shardings;
  TextMap<std::string, uint32_t> index;
  std::vector<ParamSharding> params;                   // by ParamId
  std::vector<std::pair<ParamId, ParamId>> followers;  // tied parameter, the one whose tensor it is
};

// The table's number for a sharding.
[[nodiscard]] uint32_t intern(ShardingTable& table, const Sharding& sharding);

inline const Sharding& sharding_of(const ShardingTable& table, ParamId param) {
  return table.shardings[table.params[param].sharding];
}

// "rule", "fsdp", "rule+fsdp", "default", "tied".
[[nodiscard]] std::string_view to_text(Reason reason);

// `--print shardings`: each parameter with its spec, placements, reason and rule.
[[nodiscard]] std::string dump(const ShardingTable& table, const TpPlan& plan, const ModelGraph& graph);

}  // namespace tpplan
