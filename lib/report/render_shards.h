// The report's section of shards: the ranks of each shard, per group of parameters with the same sharding.
#pragma once

#include <span>

#include "base/write_file.h"
#include "manifest/manifest.h"
#include "report/group_params.h"

namespace tpplan {

inline constexpr size_t kMaxShardGroups = 250;  // groups with an anchor `shards-N`, to which other sections link

[[nodiscard]] bool render_shards(const Manifest& manifest, std::span<const ShardGroup> groups, const Sink& sink);

}  // namespace tpplan
