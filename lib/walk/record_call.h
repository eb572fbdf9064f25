// The collectives of a step, as they are called.
#pragma once

#include <string_view>
#include <vector>

#include "walk/walk_state.h"

namespace tpplan {

// `axis` is one of the walk's; `shape` is what rank 0 hands in; `hidden` as in CollectiveCall.
void record_call(Walk& walk, bool backward, CollectiveKind kind, size_t axis, ModuleId module,
                 std::vector<int64_t> shape, std::string_view dtype, bool hidden = false);
// A call that is known but for its module's path.
void record_call(Walk& walk, CollectiveCall call, ModuleId module);

}  // namespace tpplan
