// The report's picture of the model: layers side by side, as wide as their bytes, coloured by what cuts them.
#pragma once

#include <span>
#include <string>

#include "manifest/manifest.h"
#include "report/group_params.h"

namespace tpplan {

// The section; each piece leads to its group of the section of shards. Pieces that are too small to be seen are
// counted.
[[nodiscard]] std::string model_html(const Manifest& manifest, std::span<const ShardGroup> groups);

}  // namespace tpplan
