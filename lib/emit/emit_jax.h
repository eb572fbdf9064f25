// Export of entries for jax.sharding.PartitionSpec(*entries).
#pragma once

#include "emit/format_limit.h"

namespace tpplan {

// JAX supports equal, contiguous shards only, and so does Orbax, which stores JAX's shardings.
extern const FormatLimit kJaxLimitRows[2];
inline constexpr std::span<const FormatLimit> kJaxLimits = kJaxLimitRows;

// Writes {"mesh": {"axis_shapes": [2, 4], "axis_names": ["fsdp", "tp"]}, "specs": {path: [null | axis | [axes]]}}.
// `mesh` has the arguments of jax.make_mesh. Returns false if the sink fails.
[[nodiscard]] bool write_jax(const Manifest& manifest, const Sink& sink);

}  // namespace tpplan
