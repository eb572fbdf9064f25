// Differences between the two resolvers of logical axis rules in Flax.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "resolve/match/decide_dims.h"

namespace tpplan {

// Warns (TP4014) if Flax NNX shards an array with these dim names otherwise than Linen, whose result is `decided`. NNX
// reads the rules as a dict (flax 0.12, nnx/spmd.py, get_pspec): the last rule of a name applies, an axis that shards
// another dim is not passed over, and a name without a rule is used as a mesh axis. All differences are one diagnostic.
void compare_nnx(const TpPlan& plan, const ModelGraph& graph, const Param& param, const NameRules& rules,
                 std::span<const std::string_view> names, std::span<const RuleId> decided, Diagnostics& diagnostics);

}  // namespace tpplan
