// Writes a manifest file.
#pragma once

#include <string>
#include <string_view>

#include "base/write_file.h"
#include "manifest/manifest.h"

namespace tpplan {

// Sends the manifest (schemas/manifest.schema.json) to `sink` in chunks, one parameter per line. The bytes depend only
// on the manifest and its paths. Returns false if the sink fails.
[[nodiscard]] bool write_manifest(const Manifest& manifest, const ManifestPaths& paths, const Sink& sink);

// Returns the line of one parameter or buffer, a JSON object.
[[nodiscard]] std::string param_json(const Manifest& manifest, const ManifestParam& param);

}  // namespace tpplan
