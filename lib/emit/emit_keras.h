// Export of a keras.distribution.LayoutMap (Keras 3.15).
#pragma once

#include "emit/loss_row.h"

namespace tpplan {

extern const LossRow kKerasLossRows[3];
inline constexpr std::span<const LossRow> kKerasLosses = kKerasLossRows;

// {"mesh": {"shape": [2, 4], "axis_names": ["fsdp", "tp"]}, "layout_map": {key: [axis | null]}}: `mesh` holds the
// arguments of DeviceMesh. Keys are regular expressions for whole paths; paths that differ in numbers only share one,
// where it matches these paths and no other of the manifest.
[[nodiscard]] bool write_keras(const Manifest& manifest, const Sink& sink);

}  // namespace tpplan
