// The best sequence of layers of one mesh, from the costs of its parts: an exact dynamic program over the layers.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "search/mesh_costs.h"

namespace tpplan {

// Returns the best sequence; nullopt if none fits. Of equal ones the one with less memory (Time) or time (Memory), then
// the one with the first ways.
[[nodiscard]] std::optional<Solution> solve_mesh(const MeshCosts& costs, const SolveLimits& limits);

// Returns the layers that no other one of their state beats in time and memory.
[[nodiscard]] std::vector<uint32_t> unbeaten_layers(const MeshCosts& costs);

[[nodiscard]] double objective_of(const Solution& solution, Objective objective);

// Returns time and memory of a sequence.
[[nodiscard]] Solution sum_of(const MeshCosts& costs, uint32_t end, std::vector<uint32_t> layers);

}  // namespace tpplan
