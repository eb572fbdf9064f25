// The collectives of one training step as people compare them: calls that are alike are one row, layers that are alike
// are one group, and sums of bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sharding/collective_call.h"
#include "sharding/mesh.h"

namespace tpplan {

// What calls move. `payload` is the size of a call as nccl-tests counts it (payload_bytes), `wire` what a rank sends of
// it in a ring (ring_bytes).
struct CallSums {
  uint64_t calls = 0, payload = 0, wire = 0;
};

// Calls of one layer that differ in their module only.
struct CallRow {
  const CollectiveCall* call = nullptr;  // the first of them
  std::vector<std::string> modules;  // below the layer, in order; numbers that differ are ranges: "experts.{0..7}.w2"
  CallSums sums;
};

// Layers that make the same calls: modules whose paths differ in their first number.
struct CallGroup {
  std::string layers;            // "model.layers.{0..79}"; empty: all that stands in no layer
  uint64_t count = 1;            // how many layers
  std::vector<CallRow> forward;  // of one layer, in order
  std::vector<CallRow> backward;
  CallSums sums;  // of one layer
};

struct CollectiveMeasure {
  std::vector<CallGroup> groups;  // by their first call; what stands in no layer comes first
  CallSums forward, backward;     // of all calls
  CallSums total;                 // of both
  CallSums hidden;                // of those that no rule asks for
  bool overflow = false;          // a sum leaves 64 bits: nothing above is to be used
};

// The rows point into `calls`.
[[nodiscard]] CollectiveMeasure measure_collectives(std::span<const CollectiveCall> calls, const Mesh& mesh);

// What all calls move; kTooManyBytes where a sum leaves 64 bits.
[[nodiscard]] CallSums sum_calls(std::span<const CollectiveCall> calls, const Mesh& mesh);

// "o_proj", "self_attn.{q,k}_proj": the modules of a row in few words.
[[nodiscard]] std::string modules_text(std::span<const std::string> modules);

}  // namespace tpplan
