// Manifest file -> Manifest.
#pragma once

#include "base/source_file.h"
#include "diagnostics/diagnostics.h"
#include "manifest/manifest.h"

namespace tpplan {

inline constexpr size_t kMaxManifestBytes = size_t{4} * 1024 * 1024 * 1024;

// Reads a manifest and proves it: every spec is legal for its shape and mesh, and placements, local shapes, replicas
// and totals are recomputed from the specs and compared, so that an edited manifest is an error (TP7002) and not a
// surprise.
[[nodiscard]] Manifest read_manifest(const SourceFile& file, Diagnostics& diagnostics);

}  // namespace tpplan
