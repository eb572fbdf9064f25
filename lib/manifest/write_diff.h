// The difference of two manifests in words and as JSON.
#pragma once

#include <string>
#include <string_view>

#include "base/write_file.h"
#include "manifest/diff_manifest.h"

namespace tpplan {

inline constexpr std::string_view kDiffFormat = "tpplan.diff/1";

// For people: first one line that says it all, with a note when the inputs differ; then what differs, section by
// section, empty for manifests that say the same. Names are escaped for a terminal.
[[nodiscard]] std::string diff_summary(const ManifestDiff& diff);
[[nodiscard]] std::string diff_text(const ManifestDiff& diff);

// One document of schemas/diff.schema.json, sent to `sink` piece by piece. False as soon as the sink refuses.
[[nodiscard]] bool write_diff_json(const ManifestDiff& diff, const Sink& sink);

}  // namespace tpplan
