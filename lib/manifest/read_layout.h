// What a manifest says of a parameter but its path.
#pragma once

#include <optional>
#include <vector>

#include "manifest/manifest_reader.h"
#include "sharding/rank_offsets.h"

namespace tpplan {

// `tree` is the parameter; `offsets` what it says of them, if anything.
[[nodiscard]] bool read_layout(ManifestReader& reader, const JsonTree& tree, ParamLayout& layout,
                               std::optional<std::vector<DimOffsets>>& offsets);

}  // namespace tpplan
