// For each unit of a plan: what its other strategies cost in the same plan, by the sums of parts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "search/search_space.h"
#include "search/solve.h"

namespace tpplan {

// What a plan decides. `Layer` is a unit of layers of one way: the attention, the MLP.
enum class PlanUnit : uint8_t { Table, Head, Layer, Fsdp, Remat };

// A strategy with time and memory of the whole step, if only this unit changes.
struct PricedStrategy {
  std::string strategy;
  double seconds = 0;
  uint64_t memory = 0;  // that the allocator reserves
};

struct UnitChoice {
  PlanUnit unit = PlanUnit::Table;
  size_t index = 0;                    // of a Layer: into SearchSpace::units
  uint16_t way = 0;                    // of a Layer: the way of these layers, into SearchSpace::layer_ways
  std::vector<size_t> layers;          // empty: outside of layers
  std::string strategy;                // of the plan
  std::optional<PricedStrategy> next;  // the best other one that fits
  std::optional<PricedStrategy> over;  // one that is better, but over the limit
};

// Returns the units of a plan that have another strategy with costs. Layers of one way change together, as do those
// that are recomputed or not, and those that FSDP shards or not.
[[nodiscard]] std::vector<UnitChoice> compare_units(const SearchSpace& space, const MeshCosts& costs,
                                                    const Solution& plan, const SolveLimits& limits);

// Returns the name of a unit: "embedding", "head", "attention", "fsdp".
[[nodiscard]] std::string_view unit_name(const SearchSpace& space, const UnitChoice& unit);

}  // namespace tpplan
