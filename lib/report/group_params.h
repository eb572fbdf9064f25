// The parameters of a manifest seen two ways: by how they are cut, and by the rule that decided it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "manifest/manifest.h"

namespace tpplan {

// Parameters with the same shape, type, spec and segments, and so the same pieces on every rank.
struct ShardGroup {
  uint32_t layout = 0;           // of one of them, into Manifest::layouts
  std::vector<uint32_t> params;  // into Manifest::parameters, ascending
  uint64_t bytes = 0;            // of all of them, whole; saturates
};

// Every parameter in exactly one group, those with the most bytes first.
[[nodiscard]] std::vector<ShardGroup> group_by_sharding(const Manifest& manifest);

// What one rule, or the lack of one, decided. `rule` is kNoManifestRule for parameters without a rule: `reason` says
// why they are as they are.
struct RuleNode {
  uint32_t rule = kNoManifestRule;
  std::string reason;
  std::vector<uint32_t> params;   // into Manifest::parameters
  std::vector<uint32_t> modules;  // into Manifest::modules: those whose boundaries the rule lays out
};

// Rules that stand in one block (`in_block`), or in none, in file order.
struct RuleBlock {
  bool in_block = false;
  std::string block;
  std::vector<RuleNode> nodes;
};

// Every rule and every parameter exactly once. Blocks by their first rule; parameters without a rule at the end, in a
// RuleBlock of their own.
[[nodiscard]] std::vector<RuleBlock> group_by_rule(const Manifest& manifest);

}  // namespace tpplan
