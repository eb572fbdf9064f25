// The report's picture of the model: layers from left to right, as wide as their bytes, colored by their sharding.
#pragma once

#include <span>
#include <string>

#include "manifest/manifest.h"
#include "report/group_params.h"

namespace tpplan {

// Returns the section. Each drawn tensor links to its group in the section of shards. Tensors that are too small to be
// drawn are only counted.
[[nodiscard]] std::string model_html(const Manifest& manifest, std::span<const ShardGroup> groups);

}  // namespace tpplan
