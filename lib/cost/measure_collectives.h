// The collectives of one training step, grouped for tables: identical calls are one row, identical layers one group.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sharding/collective_call.h"
#include "sharding/mesh.h"

namespace tpplan {

// Bytes of calls. `payload` is the size of a call as nccl-tests counts it (payload_bytes), `wire` the bytes that a rank
// sends in a ring algorithm (ring_bytes).
struct CallSums {
  uint64_t calls = 0, payload = 0, wire = 0;
};

// Calls of one layer that differ only in their module.
struct CallRow {
  const CollectiveCall* call = nullptr;  // the first of them
  std::vector<std::string> modules;  // inside the layer, in order; differing numbers are ranges: "experts.{0..7}.w2"
  CallSums sums;
};

// Layers that make the same calls.
struct CallGroup {
  std::string layers;            // "model.layers.{0..79}"; empty: all that stands in no layer
  uint64_t count = 1;            // number of layers
  std::vector<CallRow> forward;  // of one layer, in order
  std::vector<CallRow> backward;
  CallSums sums;  // of one layer
};

struct CollectiveMeasure {
  std::vector<CallGroup> groups;  // by their first call; calls outside of layers come first
  CallSums forward, backward;     // of all calls
  CallSums total;                 // of both
  CallSums hidden;                // of calls that no rule requires
  bool overflow = false;          // a sum exceeds 64 bits: everything above is invalid
};

// The rows point into `calls`.
[[nodiscard]] CollectiveMeasure measure_collectives(std::span<const CollectiveCall> calls, const Mesh& mesh);

// Returns the bytes of all calls; kTooManyBytes if a sum exceeds 64 bits.
[[nodiscard]] CallSums sum_calls(std::span<const CollectiveCall> calls, const Mesh& mesh);

// Returns a short form of the modules of a row: "o_proj", "self_attn.{q,k}_proj".
[[nodiscard]] std::string modules_text(std::span<const std::string> modules);

}  // namespace tpplan
