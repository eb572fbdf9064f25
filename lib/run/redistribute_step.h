// One step of a redistribution, carried out: a tensor that is laid out over a mesh, in memory, from one layout to the
// next.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ranks/backend.h"
#include "sharding/boxes.h"
#include "sharding/redistribute.h"

namespace tpplan {

// A tensor as this rank holds it: row major, without gaps, the region that shard_slice gives its coordinate. An axis
// that is Partial does not cut: each of its ranks holds a summand of the whole region.
struct LocalTensor {
  std::string name;                   // for people: what faults and steps call it
  std::vector<int64_t> shape;         // of the whole tensor
  std::vector<DimSegments> segments;  // of fused dims, each of which is cut by itself; Sharding::segments
  DType dtype = 0;
  std::vector<Placement> placements;  // one for each mesh axis; of a fused dim Shard, whatever torch calls it
  uint64_t bytes = 0;                 // of this rank's region
  std::shared_ptr<void> data;         // memory of comm.device; null when bytes is 0
};

// How often a step's call is made to be timed, beside the one whose result counts: `warmup` times untimed, then
// `iterations` times.
struct StepTiming {
  int warmup = 0, iterations = 0;
};

// How long the ranks talked, and about how much, as nccl-tests counts it: the calls alone, in memory that stands ready,
// one behind the other with one wait for the device at the end; bytes of the larger side of one rank's exchange
// (all_gather: what it ends up with; reduce_scatter, all_to_all: what it starts with; all_reduce: the buffer). Of a
// slice, the copy and what it leaves.
struct StepMeasure {
  double seconds = 0;  // of one call, from this rank's point of view; 0 where nothing was to be timed
  uint64_t bytes = 0;
  uint64_t group = 1;  // ranks that took part: the size of the axis
};

// What `rank` holds of a tensor: its shape, segments and placements are read. False when the placements are not a
// layout of that shape on that mesh.
[[nodiscard]] bool region_of(const LocalTensor& tensor, const Mesh& mesh, int rank, Region& region);

// Memory for comm.rank's region, `bytes` and `data` set; false with a fault in comm when the placements are no layout
// or the device has no memory left.
[[nodiscard]] bool allocate_local(Comm& comm, const Mesh& mesh, LocalTensor& tensor);

// Carries out `collective` with the ranks that differ from this one in its axis only; all ranks of the mesh call it. On
// success `tensor` has new memory and its placement on that axis is `after` (placement_after without it; a StridedShard
// has to be said); the old memory is left as it was for whoever shares it. Dims, -1 and so on, uneven and empty regions
// are all fine. Returns false with the fault in comm, and the other ranks told, when the step does not fit the layout,
// when the group does not hold what its ranks need (a gather over a major axis while a minor one still cuts the dim),
// when the runs of a type below 8 bits are not whole bytes, when a sum is asked of a type without arithmetic, or when
// the backend fails.
[[nodiscard]] bool redistribute_step(Comm& comm, const Mesh& mesh, const Collective& collective, LocalTensor& tensor,
                                     std::optional<Placement> after = std::nullopt, StepMeasure* measure = nullptr,
                                     const StepTiming& timing = {});

}  // namespace tpplan
