// The report's section of shards: for each group of parameters that are cut alike, who holds which part.
#pragma once

#include <span>

#include "base/write_file.h"
#include "manifest/manifest.h"
#include "report/group_params.h"

namespace tpplan {

inline constexpr size_t kMaxShardGroups = 250;  // groups that have a place, `shards-N`, to which other sections lead

[[nodiscard]] bool render_shards(const Manifest& manifest, std::span<const ShardGroup> groups, const Sink& sink);

}  // namespace tpplan
