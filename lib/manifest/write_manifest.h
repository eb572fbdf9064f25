// Manifest -> manifest file.
#pragma once

#include <string>
#include <string_view>

#include "base/write_file.h"
#include "manifest/manifest.h"

namespace tpplan {

// Sends the manifest (schemas/manifest.schema.json) to `sink` piece by piece, one parameter a line. The bytes depend on
// the manifest alone. False as soon as the sink refuses.
[[nodiscard]] bool write_manifest(const Manifest& manifest, const Sink& sink);

// The line of one parameter or buffer: a JSON object.
[[nodiscard]] std::string param_json(const Manifest& manifest, const ManifestParam& param);

}  // namespace tpplan
