// Manifest -> what jax.sharding.PartitionSpec(*entries) takes.
#pragma once

#include "emit/emit_formats.h"

namespace tpplan {

// JAX places equal, contiguous pieces only; Orbax, which stores its shardings, too.
extern const LossRow kJaxLossRows[2];
inline constexpr std::span<const LossRow> kJaxLosses = kJaxLossRows;

// {"mesh": {"axis_shapes": [2, 4], "axis_names": ["fsdp", "tp"]}, "specs": {path: [null | axis | [axes]]}}: `mesh`
// holds the arguments of jax.make_mesh.
[[nodiscard]] bool write_jax(const Manifest& manifest, const Sink& sink);

}  // namespace tpplan
