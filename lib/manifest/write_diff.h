// The difference of two manifests as JSON.
#pragma once

#include <string_view>

#include "base/write_file.h"
#include "manifest/diff_manifest.h"

namespace tpplan {

inline constexpr std::string_view kDiffFormat = "tpplan.diff/1";

// One document of schemas/diff.schema.json, sent to `sink` piece by piece. False as soon as the sink refuses.
[[nodiscard]] bool write_diff_json(const ManifestDiff& diff, const Sink& sink);

}  // namespace tpplan
