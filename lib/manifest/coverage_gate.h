// Checks the share of a model that is replicated on all ranks against a limit.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "diagnostics/diagnostics.h"
#include "manifest/manifest.h"

namespace tpplan {

// Parses a share of the model's bytes into 0 to 1: "5%", "2.5 %" or "0.05". Returns false for other text, and for "1",
// which is ambiguous between 100% and 1%.
[[nodiscard]] bool parse_share(std::string_view text, double& share);
inline constexpr std::string_view kShareForm = "a share such as 5% or 0.05 (one percent is 1%, all is 100%)";

// Fully replicated parameters whose paths differ only in their numbers.
struct ReplicatedGroup {
  std::string pattern;  // path with the numbers as ranges: "layers.{0..31}.norm.weight"
  uint64_t count = 0;
  uint64_t bytes = 0;  // of the whole group, on each rank
};
// Returns the `most` largest groups, the largest first.
[[nodiscard]] std::vector<ReplicatedGroup> largest_replicated(const Manifest& manifest, size_t most);

// Returns a diagnostic (TP5021) if more than `limit` of the bytes are replicated on all ranks. It lists the bytes per
// rank, the ideal, and the largest replicated groups.
[[nodiscard]] std::optional<Diagnostic> check_replicated(const Manifest& manifest, double limit);

}  // namespace tpplan
