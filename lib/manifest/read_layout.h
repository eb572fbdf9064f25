// Reads the layout of a parameter in a manifest.
#pragma once

#include <optional>
#include <vector>

#include "manifest/manifest_reader.h"
#include "sharding/rank_offsets.h"

namespace tpplan {

// Reads all fields of the parameter `tree` except its path. `offsets` is empty if the parameter has none.
[[nodiscard]] bool read_layout(ManifestReader& reader, const JsonTree& tree, ParamLayout& layout,
                               std::optional<std::vector<DimOffsets>>& offsets);

}  // namespace tpplan
