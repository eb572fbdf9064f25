// Every number of the report and of the chart, from a manifest: bytes of each rank, bytes moved over each axis.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "manifest/manifest.h"
#include "sharding/redistribute.h"

namespace tpplan {

// What an optimizer keeps for each element of a parameter, in float32, cut as the parameter is. Integer types are not
// trained and have no state.
struct Optimizer {
  std::string_view name;
  uint64_t bytes_per_element;
  std::string_view assumption;
};
std::span<const Optimizer> optimizers();
const Optimizer* find_optimizer(std::string_view name);  // nullptr: there is none of that name

// Ranks `begin` to `end` - 1.
struct RankRun {
  int64_t begin = 0;
  int64_t end = 0;
};

// Ranks that hold as many bytes as each other. All bytes are of one rank.
struct RankMemory {
  std::vector<RankRun> ranks;  // ascending
  int64_t rank_count = 0;
  uint64_t parameters = 0;  // bytes_per_rank of the manifest
  uint64_t replicated = 0;  // part of `parameters`: of those that every rank holds whole
  uint64_t optimizer = 0;
  uint64_t buffers = 0;
  uint64_t total = 0;  // parameters + optimizer + buffers
};

enum class TrafficKind : uint8_t {
  GradAllReduce,
  GradReduceScatter,
  FsdpGather,  // parameters that FSDP cut, gathered for the forward and again for the backward pass
};

// Bytes of one training step over one axis, on rank 0, whose pieces are the largest.
struct AxisTraffic {
  AxisId axis = kNoAxis;
  TrafficKind kind{};
  uint64_t tensors = 0;
  uint64_t times = 1;    // in a step
  uint64_t payload = 0;  // of all tensors once: what is summed, or what a gather gives or a scatter takes
  uint64_t sent = 0;  // by a rank in a step, as rings do it: (n-1)/n of the payload each time, twice that to all_reduce
};

// How often a collective stands at the modules' boundaries. Its bytes depend on the batch, of which a manifest says
// nothing.
struct BoundaryTraffic {
  bool backward = false;
  CollectiveKind kind{};
  AxisId axis = kNoAxis;
  uint64_t count = 0;
};

struct ManifestMeasure {
  const Optimizer* optimizer = nullptr;
  // By their first rank; a single group of all ranks, as the fullest is, where the manifest does not list its ranks.
  std::vector<RankMemory> ranks;
  bool ranks_listed = true;
  RankMemory fullest;            // the group that holds the most
  uint64_t optimizer_bytes = 0;  // of the whole model
  uint64_t buffer_bytes = 0;
  uint64_t ideal_optimizer = 0;  // optimizer_bytes / ranks, rounded up
  uint64_t ideal = 0;            // totals.ideal_bytes_per_rank + ideal_optimizer + buffers, which are whole everywhere
  std::vector<bool> counted;     // of each parameter, false for a name of a tensor that another name stands for
  std::vector<AxisTraffic> traffic;         // by axis and kind, only what there is
  std::vector<BoundaryTraffic> boundaries;  // by direction, kind and axis, only what there is
  bool overflow = false;                    // a sum leaves 64 bits: nothing above is to be used
};

ManifestMeasure measure_manifest(const Manifest& manifest, const Optimizer& optimizer);

// Bytes of all elements of a layout's tensor.
uint64_t whole_bytes(const ParamLayout& layout);

}  // namespace tpplan
