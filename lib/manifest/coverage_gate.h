// How much of a model the plan left on every rank, held against a limit.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "diagnostics/diagnostics.h"
#include "manifest/manifest.h"

namespace tpplan {

// A share of the model's bytes, 0 to 1. Reads "5%", "2.5 %" and "0.05"; false on anything else, and on "1", which may
// be meant as all of it or as one percent.
[[nodiscard]] bool parse_share(std::string_view text, double& share);
inline constexpr std::string_view kShareForm = "a share such as 5% or 0.05 (one percent is 1%, all is 100%)";

// Parameters that every rank holds whole, the largest first, names that differ in numbers only taken together.
struct ReplicatedGroup {
  std::string pattern;  // numbers as ranges: "layers.{0..31}.norm.weight"
  uint64_t count = 0;
  uint64_t bytes = 0;  // of all of them, on each rank
};
[[nodiscard]] std::vector<ReplicatedGroup> largest_replicated(const Manifest& manifest, size_t most);

// The finding (TP5021) when more than `limit` of the bytes stand on every rank: what each rank holds beside the ideal,
// and the largest of what stayed whole.
[[nodiscard]] std::optional<Diagnostic> check_replicated(const Manifest& manifest, double limit);

}  // namespace tpplan
