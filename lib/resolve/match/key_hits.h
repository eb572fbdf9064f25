// Modules and parameters that globs match, cached per model for other plans with the same keys (judge/judge.h).
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
  std::vector<ModuleId> modules;  // ascending, like `params`
  std::vector<ParamId> params;
};

// Default of the cache's maximum size, in stored ids and bytes of keys.
inline constexpr size_t kMaxCachedHits = size_t{1} << 22;

struct KeyHits {
  size_t most = kMaxCachedHits;  // size above which the cache is cleared
  const ModelGraph* model = nullptr;
  TextMap<std::string, std::vector<ModuleId>> blocks;  // by pattern: its outermost matches
  TextMap<std::string, NamedPaths> keys;  // by length of the block's pattern + 1 (0: no block), pattern, key
  size_t numbers = 0;                     // size of both, as in kMaxCachedHits
};

// Returns, by RuleId, what each rule's glob matches in its block or in the model. The pointers into `hits` are valid
// until the next call. Returns nullopt if the cache would exceed `most`, and for the first plan of a model, because
// most models are checked with one plan, and matching all keys at once is faster than each alone.
[[nodiscard]] std::optional<std::vector<const NamedPaths*>> matches_by_rule(KeyHits& hits, const TpPlan& plan,
                                                                            const ModelGraph& graph);

// Returns the modules of a plan's block; no module is inside another.
// @pre matches_by_rule returned a value for the plan
[[nodiscard]] std::span<const ModuleId> modules_of_block(const KeyHits& hits, const ModulePattern& block);

}  // namespace tpplan
