// Sharding by dim names, shared by the dialects that do not follow a framework's code.
#pragma once

#include "resolve/infer/style_dim.h"

namespace tpplan {

// True if the style supports the module's kind, or the kind is unknown.
[[nodiscard]] bool supports_kind(const InferenceInput& in, const ParamMatch& match, const Module& module);

// Returns the dim that the style names; none of a module's scalars, which stay replicated. Reports TP5010 if the
// parameter's dims have no names.
[[nodiscard]] StyleDim shard_by_name(const InferenceInput& in, const ParamMatch& match, const Module& module,
                                     const Param& param);

}  // namespace tpplan
