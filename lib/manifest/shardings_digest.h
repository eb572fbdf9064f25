// The identity of saved shards: manifests with equal shardings of equal tensors describe the same files, whatever else
// differs, such as the hash of a model file that was written again.
#pragma once

#include <string>

#include "manifest/manifest.h"

namespace tpplan {

// Returns the SHA-256, as 64 hexadecimal digits, of the mesh and of each tensor's path, dtype, shape and sharding in
// the manifest's order, and of the groups of tied parameters.
[[nodiscard]] std::string shardings_sha256(const Manifest& manifest);

}  // namespace tpplan
