// Groups the parameters of a manifest: by their sharding, and by the rule that determines it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "manifest/manifest.h"

namespace tpplan {

// Parameters with the same shape, dtype, spec and segments, and therefore the same shard on every rank.
struct ShardGroup {
  uint32_t layout = 0;           // of one parameter, an index into Manifest::layouts
  std::vector<uint32_t> params;  // indices into Manifest::parameters, ascending
  uint64_t bytes = 0;            // global size of all parameters; saturates
};

// Returns groups that contain every parameter exactly once, sorted by descending bytes.
[[nodiscard]] std::vector<ShardGroup> group_by_sharding(const Manifest& manifest);

// The parameters and modules of one rule. `rule` is kNoManifestRule for parameters without a rule, and `reason`
// explains their sharding.
struct RuleNode {
  uint32_t rule = kNoManifestRule;
  std::string reason;
  std::vector<uint32_t> params;   // indices into Manifest::parameters
  std::vector<uint32_t> modules;  // indices into Manifest::modules; the rule applies to their inputs or outputs
};

// The rules of one block of the plan, or the rules outside blocks (`in_block` is false), in file order.
struct RuleBlock {
  bool in_block = false;
  std::string block;
  std::vector<RuleNode> nodes;
};

// Returns every rule and every parameter exactly once. Blocks are in the order of their first rules. Parameters without
// a rule are in a separate RuleBlock at the end.
[[nodiscard]] std::vector<RuleBlock> group_by_rule(const Manifest& manifest);

}  // namespace tpplan
