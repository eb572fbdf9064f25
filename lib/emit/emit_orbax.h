// Export of the `_sharding` file of an Orbax checkpoint (orbax-checkpoint 0.12, metadata/sharding.py).
#pragma once

#include "emit/format_limit.h"

namespace tpplan {

// Writes {base64url of the path: JSON text of a NamedSharding}. It has no `device_mesh`, so that a checkpoint opens on
// any devices. Orbax names a parameter by the keys of its tree, joined with dots. Returns false if the sink fails.
[[nodiscard]] bool write_orbax(const Manifest& manifest, const Sink& sink);

}  // namespace tpplan
