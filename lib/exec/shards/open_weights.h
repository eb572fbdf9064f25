// Finds where the bytes of each tensor of a manifest are in weight files.
#pragma once

#include <string>

#include "exec/shards/place_tensors.h"
#include "manifest/manifest.h"

namespace tpplan {

// Opens the files that choose_weights finds at `path`, each once, and reads their headers. Errors in headers go to
// source.weights.diagnostics. Returns false after any error. Throws TP8020 and TP8021 for a folder that cannot be used.
[[nodiscard]] bool open_files(const std::string& path, WeightSource& source);

// Opens the files and finds the manifest's tensors in them (place_tensors). Diagnostics go to source.findings; those of
// headers and the index to source.weights.diagnostics. Returns false after any error.
[[nodiscard]] bool open_weights(const std::string& path, const Manifest& manifest, WeightSource& source,
                                const PlaceOptions& options = {});

}  // namespace tpplan
