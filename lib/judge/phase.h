// The phases with a result, in order.
#pragma once

#include <cstdint>
#include <string_view>

namespace tpplan {

enum class Phase : uint8_t { Model, Graph, Plan, Matches, Shardings, Boundaries, Operations, Manifest };
inline constexpr std::string_view kPhaseNames[] = {"model",     "graph",      "plan",       "matches",
                                                   "shardings", "boundaries", "operations", "manifest"};  // by Phase

[[nodiscard]] inline std::string_view to_text(Phase phase) { return kPhaseNames[static_cast<size_t>(phase)]; }
// Returns false if no phase has this name.
[[nodiscard]] bool find_phase(std::string_view name, Phase& phase);

}  // namespace tpplan
