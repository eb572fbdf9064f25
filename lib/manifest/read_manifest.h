// Reads and validates a manifest file.
#pragma once

#include "base/source_file.h"
#include "diagnostics/diagnostics.h"
#include "manifest/manifest.h"

namespace tpplan {

inline constexpr size_t kMaxManifestBytes = size_t{4} * 1024 * 1024 * 1024;

// Reads a manifest and validates it: every spec is legal for its shape and mesh. Recomputes placements, local shapes,
// replicas and totals from the specs and compares them, so that an inconsistent edit is an error (TP7002).
[[nodiscard]] Manifest read_manifest(const SourceFile& file, Diagnostics& diagnostics);

}  // namespace tpplan
