// What a manifest says of a parameter but its path.
#pragma once

#include "manifest/manifest_reader.h"

namespace tpplan {

// `tree` is the parameter.
[[nodiscard]] bool read_layout(ManifestReader& reader, const JsonTree& tree, ParamLayout& layout);

}  // namespace tpplan
