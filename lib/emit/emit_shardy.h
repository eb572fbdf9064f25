// Export of Shardy: an MLIR module that declares a function of all parameters.
#pragma once

#include "emit/loss_row.h"

namespace tpplan {

extern const LossRow kShardyLossRows[2];
inline constexpr std::span<const LossRow> kShardyLosses = kShardyLossRows;

// `sdy.mesh @mesh = <["fsdp"=2, "tp"=4]>`, and for each parameter a tensor type with
// `{sdy.sharding = #sdy.sharding<@mesh, [{"tp"}, {}]>, tpplan.path = "..."}`. All dims are closed. A dim that its axes
// do not divide is legal there, and is cut into pieces of ceil(size / ways), over several axes too.
[[nodiscard]] bool write_shardy(const Manifest& manifest, const Sink& sink);

}  // namespace tpplan
