// The phases that have a product, in their order.
#pragma once

#include <cstdint>
#include <string_view>

namespace tpplan {

enum class Phase : uint8_t { Model, Plan, Matches, Shardings, Boundaries, Operations, Manifest };
inline constexpr std::string_view kPhaseNames[] = {"model",      "plan",       "matches", "shardings",
                                                   "boundaries", "operations", "manifest"};  // by Phase

[[nodiscard]] inline std::string_view to_text(Phase phase) { return kPhaseNames[static_cast<size_t>(phase)]; }
// False when there is no such phase.
[[nodiscard]] bool find_phase(std::string_view name, Phase& phase);

}  // namespace tpplan
