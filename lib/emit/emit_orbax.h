// Manifest -> the `_sharding` file of an Orbax checkpoint (orbax-checkpoint 0.12, metadata/sharding.py).
#pragma once

#include "emit/emit_formats.h"

namespace tpplan {

// {base64url of the path: JSON text of a NamedSharding}. Without `device_mesh`, so that a checkpoint opens on whatever
// devices there are. Orbax names a parameter by the keys of its tree joined with dots.
[[nodiscard]] bool write_orbax(const Manifest& manifest, const Sink& sink);

// RFC 4648, the URL-safe alphabet, padded.
[[nodiscard]] std::string base64url(std::string_view bytes);

}  // namespace tpplan
