// Writes a manifest diff as JSON.
#pragma once

#include <string_view>

#include "base/write_file.h"
#include "diff/manifest_diff.h"

namespace tpplan {

inline constexpr std::string_view kDiffFormat = "tpplan.diff/1";

// Sends a document of schemas/diff.schema.json to `sink` in chunks. Returns false if the sink fails.
[[nodiscard]] bool write_diff_json(const ManifestDiff& diff, const Sink& sink);

}  // namespace tpplan
