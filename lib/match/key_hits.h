// Which modules and parameters the globs of plans name: found once for a model, and kept for the plans that have the
// same keys (judge_tables.h).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/keyed_hash.h"
#include "model/model_graph.h"
#include "plan/tp_plan.h"

namespace tpplan {

struct NamedPaths {
  std::vector<ModuleId> modules;  // ascending, as the parameters
  std::vector<ParamId> params;
};

// More than so many numbers are not kept.
inline constexpr size_t kMostKeptHits = size_t{1} << 22;

struct KeyHits {
  size_t most = kMostKeptHits;  // numbers that may stay for the next plan
  const ModelGraph* model = nullptr;
  TextMap<std::string, std::vector<ModuleId>> blocks;  // by pattern: the outermost modules that it matches
  TextMap<std::string, NamedPaths> keys;               // by where a key ends the block's pattern, this, and the key
  size_t numbers = 0;                                  // that stand in them
};

// What each rule of a plan whose keys are globs names, in its block or the whole model: by RuleId. Points into `hits`,
// until it is asked for another plan. Nothing where it would be more than `most` numbers.
[[nodiscard]] std::optional<std::vector<const NamedPaths*>> named_by_rules(KeyHits& hits, const TpPlan& plan,
                                                                           const ModelGraph& graph);

// The modules of a plan's block, none inside another. @pre named_by_rules was asked for the plan, and answered
[[nodiscard]] std::span<const ModuleId> modules_of_block(const KeyHits& hits, const ModulePattern& block);

}  // namespace tpplan
