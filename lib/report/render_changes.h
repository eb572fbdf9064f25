// The report's section of differences from an older manifest.
#pragma once

#include "base/write_file.h"
#include "diff/manifest_diff.h"
#include "manifest/manifest.h"

namespace tpplan {

[[nodiscard]] bool render_changes(const Manifest& old_manifest, const Manifest& new_manifest, const ManifestDiff& diff,
                                  const Sink& sink);

}  // namespace tpplan
