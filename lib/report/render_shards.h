// The report's section of shards: for each group of parameters that are cut alike, who holds which part.
#pragma once

#include <string>

#include "base/write_file.h"
#include "manifest/manifest.h"

namespace tpplan {

[[nodiscard]] bool render_shards(const Manifest& manifest, const Sink& sink);

}  // namespace tpplan
