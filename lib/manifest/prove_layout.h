// The proof that a parameter's layout, as a manifest has it, follows from its spec.
#pragma once

#include <string_view>

#include "manifest/manifest_reader.h"

namespace tpplan {

// What is written must be what the spec says: false after reporting what is not, at `node` as a fault of `path`.
[[nodiscard]] bool prove_layout(ManifestReader& reader, const ParamLayout& layout, std::string_view path,
                                const JsonNode& node);

}  // namespace tpplan
