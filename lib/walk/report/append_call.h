// The collectives of a step, in call order.
#pragma once

#include <string_view>
#include <vector>

#include "walk/state/walk_state.h"

namespace tpplan {

// Records a call. `axis`: index in WalkInput::axes; `shape`: of rank 0's input; `hidden` as in CollectiveCall.
void append_call(Walk& walk, bool backward, CollectiveKind kind, size_t axis, ModuleId module,
                 std::vector<int64_t> shape, std::string_view dtype, bool hidden = false);
// Records a call and sets the path of its module.
void append_call(Walk& walk, CollectiveCall call, ModuleId module);

}  // namespace tpplan
