// Executes one step of a redistribution on a tensor in memory.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exec/ranks/backend.h"
#include "sharding/boxes.h"
#include "sharding/redistribute.h"

namespace tpplan {

// A local tensor: the region that shard_slice returns for this rank, contiguous and row major. A Partial axis does not
// shard: each of its ranks holds a partial value of the full region.
struct LocalTensor {
  std::string name;                   // name in errors and steps
  std::vector<int64_t> shape;         // global
  std::vector<DimSegments> segments;  // of fused dims: each segment is sharded separately; see Sharding::segments
  DType dtype = 0;
  std::vector<Placement> placements;  // one per mesh axis; Shard for every sharded fused dim
  uint64_t bytes = 0;                 // of this rank's region
  std::shared_ptr<void> data;         // memory of comm.device; null when bytes is 0
};

// How often a step's call is repeated for timing, in addition to the call whose result is used: `warmup` times untimed,
// then `iterations` times.
struct StepTiming {
  int warmup = 0, iterations = 0;
};

// The time and size of a step's communication as nccl-tests measures it: only the calls, in allocated memory, one after
// the other with one synchronisation at the end. The size is the larger buffer of one rank (all_gather: output;
// reduce_scatter, all_to_all: input; all_reduce: buffer). For a slice, the copy and its output.
struct StepMeasure {
  double seconds = 0;  // of one call on this rank; 0 if it was not timed
  uint64_t bytes = 0;
  uint64_t group = 1;  // size of the group, which is the axis
};

// Computes the region of a tensor that `rank` holds, from its shape, segments and placements. Returns false if the
// placements are not a layout of that shape on that mesh.
[[nodiscard]] bool region_of(const LocalTensor& tensor, const Mesh& mesh, int rank, Region& region);

// Allocates this rank's region and sets tensor.bytes and tensor.data. Returns false with the error in comm.fault if the
// placements are not a layout or the device has no memory left.
[[nodiscard]] bool allocate_local(Comm& comm, const Mesh& mesh, LocalTensor& tensor);

// Executes `collective` with the ranks that differ from this one only along its axis; all ranks of the mesh call it. On
// success `tensor` has new memory and its placement on that axis is `after` (default: placement_after; a StridedShard
// must be given). The old memory is unchanged, because others can share it. Negative dims, uneven and empty regions are
// supported. Returns false with the error in comm.fault, known to the other ranks, if
// - the step does not fit the layout,
// - the group lacks elements that its ranks need (a gather over a major axis while a minor one still shards the dim),
// - contiguous ranges of a dtype below 8 bits are not whole bytes,
// - the dtype of a reduction has no arithmetic, or
// - the backend fails.
[[nodiscard]] bool redistribute_step(Comm& comm, const Mesh& mesh, const Collective& collective, LocalTensor& tensor,
                                     std::optional<Placement> after = std::nullopt, StepMeasure* measure = nullptr,
                                     const StepTiming& timing = {});

}  // namespace tpplan
