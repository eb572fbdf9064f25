// Merging of several dims into one, for rules that need it; views merge in view.cc.
#pragma once

#include <span>

#include "ops/op_call.h"

namespace tpplan {

// Returns the layout of the merged dim, as of a view; makes the result wrong if the shards are no shards of it.
[[nodiscard]] DimLayoutId merge_layouts(OpCall& call, OpResult& result, std::span<const DimLayoutId> parts);

}  // namespace tpplan
