// The costs of the parts of a step on one mesh, and sequences of layers.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "search/choice.h"
#include "search/part_memory.h"

namespace tpplan {

// The memory of a layer depends on its place: the first one has no gradient to pass on, the last one no layer above.
enum class LayerPlace : uint8_t { First, Middle, Last };
using LayerMemories = std::array<LayerMemory, 3>;  // by LayerPlace

// The costs of a layer, also with a change of the residual's state behind it.
struct LayerCost {
  LayerChoice choice;
  ResidualState state = ResidualState::Replicated;
  double seconds = 0;
  LayerMemories memory;
  bool can_switch = false;
  double switch_seconds = 0;  // what the change adds
  // Of the layer with the change, by whether the next layer is recomputed: what that keeps is counted here.
  std::array<LayerMemory, 2> switch_memory;
};

// The costs of everything outside of layers.
struct EndCost {
  uint16_t table = 0, head = 0;
  bool first_sharded = true, last_sharded = true;
  ResidualState first = ResidualState::Replicated, last = ResidualState::Replicated;  // of the residual
  bool needs_sharded = false;  // FSDP shards nothing outside of layers, so it has to shard a layer
  double seconds = 0;
  std::array<EndMemory, 2> memory;  // by whether the first layer is recomputed: what that keeps is counted here
};

struct MeshCosts {
  std::vector<LayerCost> layers;
  std::vector<EndCost> ends;
};

enum class Objective : uint8_t { Time, Memory, Tokens };

struct Solution {
  double seconds = 0;
  uint64_t memory = 0;
  uint32_t end = 0;              // into MeshCosts::ends
  std::vector<uint32_t> layers;  // into MeshCosts::layers
  double bound = 0;              // no sequence has a smaller objective: seconds, or bytes
};

struct SolveLimits {
  size_t layers = 0;
  std::optional<uint64_t> memory;
  Objective objective = Objective::Time;
  size_t most_kinds = 0;  // of layers; 0: any number
};

}  // namespace tpplan
