// Export of a keras.distribution.LayoutMap (Keras 3.15).
#pragma once

#include "emit/format_limit.h"

namespace tpplan {

extern const FormatLimit kKerasLimitRows[3];
inline constexpr std::span<const FormatLimit> kKerasLimits = kKerasLimitRows;

// Writes {"mesh": {"shape": [2, 4], "axis_names": ["fsdp", "tp"]}, "layout_map": {key: [axis | null]}}. `mesh` has the
// arguments of DeviceMesh. A key is a regular expression for full paths. Paths that differ only in numbers share a key,
// if it matches no other path of the manifest. Returns false if the sink fails.
[[nodiscard]] bool write_keras(const Manifest& manifest, const Sink& sink);

}  // namespace tpplan
