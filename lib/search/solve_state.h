// The state of solve_mesh, shared by its bounds (search/bound_sequences.h) and its dynamic program (solve.cc).
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "search/mesh_costs.h"

namespace tpplan {

inline constexpr size_t kStates = 2;                               // of the residual
enum NextLayer : uint8_t { kAnyLayer, kPlainLayer, kRematLayer };  // behind a change of the state
inline constexpr int64_t kFar = INT64_MAX / 8;

// The layers so far, as the last step of a chain.
struct Label {
  double seconds = 0;
  MemorySum memory;
  uint32_t before = 0;  // into the pool
  uint32_t layer = 0;   // into MeshCosts::layers
  bool has_sharded = false;
};

// A lower bound of the seconds of a sequence, from a price of the bytes of one figure: the layers and ends that follow
// cost at least `ahead`, and those before at least `behind`, with their bytes at this price, and the limit is worth
// `price` x bytes (a Lagrangian bound, right for every price). Rows are numbers of layers, columns states of the
// residual.
struct PricedBound {
  size_t figure = 0;
  double price = 0;  // seconds for each byte; 0: the bound is of the seconds alone
  std::vector<std::array<double, kStates>> ahead, behind;
};

struct Solving {
  const MeshCosts& costs;
  const SolveLimits& limits;
  std::vector<uint32_t> ways, end_ways;  // that are not beaten
  // Sequences that begin in this state, with a first layer that is recomputed or not.
  ResidualState first = ResidualState::Replicated;
  bool first_remat = false;
  std::vector<Label> pool;
  double lost = std::numeric_limits<double>::infinity();  // the best objective of labels that were dropped for room
  MemoryFigures least{}, last_least{}, most{};            // that a layer behind the first one adds; the last one
  MemoryFigures least_room{};  // as `room`, with the largest ends and peaks: labels with less never meet the limit
  int64_t limit = kFar;
  MemoryFigures room{};             // by figure: what layers can have at most
  int64_t least_last_peak = 0;      // of the backward pass of a layer
  std::vector<PricedBound> bounds;  // for these sequences
};

// True if `a` is at most `b`, but for rounding.
[[nodiscard]] inline bool no_slower(double a, double b) {
  constexpr double kEqualTimes = 1e-12;
  return a <= b + kEqualTimes * (b < 0 ? -b : b);
}

[[nodiscard]] inline bool needs_time(const Solving& s) { return s.limits.objective != Objective::Memory; }

[[nodiscard]] inline LayerPlace place_of(const Solving& s, size_t at) {
  return at == 0 ? LayerPlace::First : at + 1 == s.limits.layers ? LayerPlace::Last : LayerPlace::Middle;
}

[[nodiscard]] inline const LayerMemory& memory_at(const LayerCost& layer, LayerPlace place,
                                                  NextLayer next = kAnyLayer) {
  return next == kAnyLayer ? layer.memory[static_cast<size_t>(place)]
                           : layer.switch_memory[next == kRematLayer ? 1 : 0];
}

// Returns the peak of a layer's backward pass, with the least that its neighbors can have.
[[nodiscard]] inline int64_t backward_peak(const LayerMemory& layer) {
  return std::max({layer.output + layer.regather, layer.backward, layer.reduced + layer.reduce});
}

[[nodiscard]] inline const EndMemory& memory_of(const Solving& s, const EndCost& end) {
  return end.memory[s.first_remat ? 1 : 0];
}

// True if a layer cannot be at a place, because sequences begin with another kind of layer.
[[nodiscard]] inline bool is_excluded(const Solving& s, const LayerCost& layer, LayerPlace place) {
  return place == LayerPlace::First && (layer.state != s.first || layer.choice.remat != s.first_remat);
}

}  // namespace tpplan
