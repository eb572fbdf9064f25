// Export of Shardy: an MLIR module that declares a function of all parameters.
#pragma once

#include "emit/format_limit.h"

namespace tpplan {

extern const FormatLimit kShardyLimitRows[2];
inline constexpr std::span<const FormatLimit> kShardyLimits = kShardyLimitRows;

// Writes `sdy.mesh @mesh = <["fsdp"=2, "tp"=4]>`, and for each parameter a tensor type with the attributes
// `{sdy.sharding = #sdy.sharding<@mesh, [{"tp"}, {}]>, tpplan.path = "..."}`. All dims are closed. Shardy permits a dim
// that its axes do not divide: the shards have ceil(size / n) indices for the product n of the axes. Returns false if
// the sink fails.
[[nodiscard]] bool write_shardy(const Manifest& manifest, const Sink& sink);

}  // namespace tpplan
