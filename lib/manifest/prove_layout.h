// Checks that a parameter's layout in a manifest follows from its spec.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "manifest/manifest_reader.h"
#include "sharding/rank_offsets.h"

namespace tpplan {

// Recomputes the layout from the spec and compares. Reports a mismatch at `node` as an error of `path` and returns
// false.
[[nodiscard]] bool prove_layout(ManifestReader& reader, const ParamLayout& layout, std::string_view path,
                                const JsonNode& node);

// Checks `offsets` in the same manner. @pre prove_layout returned true for `layout`.
[[nodiscard]] bool prove_offsets(ManifestReader& reader, const ParamLayout& layout,
                                 const std::optional<std::vector<DimOffsets>>& offsets, std::string_view path,
                                 const JsonNode& node);

}  // namespace tpplan
