// Export of placements for torch's DTensor (torch 2.13).
#pragma once

#include "emit/format_limit.h"

namespace tpplan {

extern const FormatLimit kTorchLimitRows[2];
inline constexpr std::span<const FormatLimit> kTorchLimits = kTorchLimitRows;

// Writes {"mesh": {"mesh_shape": [2, 4], "mesh_dim_names": ["fsdp", "tp"]}, "uneven": "error", "parameters": {path:
// [placement]}}. `mesh` has the arguments of init_device_mesh after the device type. A placement is a Python
// expression: "Shard(0)". Returns false if the sink fails.
[[nodiscard]] bool write_torch(const Manifest& manifest, const Sink& sink);

// Writes a Python module with mesh_shape, mesh_dim_names and placements. Returns false if the sink fails.
[[nodiscard]] bool write_torch_python(const Manifest& manifest, const Sink& sink);

}  // namespace tpplan
