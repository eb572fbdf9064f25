// The proof that a parameter's layout, as a manifest has it, follows from its spec.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "manifest/manifest_reader.h"
#include "sharding/rank_offsets.h"

namespace tpplan {

// What is written must be what the spec says: false after reporting what is not, at `node` as a fault of `path`.
[[nodiscard]] bool prove_layout(ManifestReader& reader, const ParamLayout& layout, std::string_view path,
                                const JsonNode& node);

// The same of `offsets`, of a layout that is proven.
[[nodiscard]] bool prove_offsets(ManifestReader& reader, const ParamLayout& layout,
                                 const std::optional<std::vector<DimOffsets>>& offsets, std::string_view path,
                                 const JsonNode& node);

}  // namespace tpplan
