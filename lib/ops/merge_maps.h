// Several dims put together into one, for rules that do it beside other things; views do it in ops/view.cc.
#pragma once

#include <span>

#include "ops/op_call.h"

namespace tpplan {

// One dim of several, as a view merges them; wrong where the pieces are none of it.
[[nodiscard]] MapId merge_maps(OpCall& call, OpResult& result, std::span<const MapId> parts);

}  // namespace tpplan
