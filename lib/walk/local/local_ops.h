// Operations whose result depends on the mesh coordinates of a rank or on other ranks (called in
// walk/local/shard_map_run.cc), a file for each section. If one returns false, it has set no result, and the caller
// tries another.
#pragma once

#include <optional>
#include <vector>

#include "walk/local/local_op.h"

namespace tpplan {

// ---- local_borders.cc: inputs and outputs ----

// in_spec(x, spec, mesh): shards an input by the spec, for a program that was traced on this mesh.
void run_in_spec(LocalOp& op);
// out_spec(x, spec): checks that an output has the layout of the spec, and is replicated along axes that the spec
// lacks.
void run_out_spec(LocalOp& op);

// ---- local_collectives.cc ----

void run_psum(LocalOp& op);
void run_extremum(LocalOp& op);  // pmax, pmin
// all_gather(x, dim, axes), from the last axis to the first, because its shards are adjacent.
void run_all_gather(LocalOp& op);
void run_reduce_scatter(LocalOp& op);  // reduce_scatter(x, dim, axes)
// all_to_all(x, split, joined, axes): shards one dim and gathers the other.
void run_all_to_all(LocalOp& op);
// amax and amin over a sharded dim: the result is a pending maximum or minimum of the ranks.
[[nodiscard]] bool run_partial_maximum(LocalOp& op);

// ---- local_places.cc: integers that differ by rank ----

void run_axis_index(LocalOp& op);
void run_iota(LocalOp& op);  // iota(sizes, dim): each rank counts from 0
[[nodiscard]] bool differs_by_rank(const LocalOp& op);

// The integers of an argument, as functions of a global integer, the value `base`.
struct IndexArgument {
  ValueId base = kNoId;
  std::vector<RankFunction> by_rank;
  RankFunction global;
};
[[nodiscard]] std::optional<IndexArgument> index_argument(const LocalOp& op, const GraphArg& arg);

// Applies an elementwise operation to functions of the same integers.
[[nodiscard]] bool run_rank_integers(LocalOp& op);
// Adds the offset of a rank to an iota (iota + rank * size), or compares an iota with an index minus this offset (iota
// == token - rank * size). The result has global indices.
[[nodiscard]] bool run_offset_iota(LocalOp& op);

// ---- local_rows.cc: lookups in sharded rows ----

// embedding(index, rows) and gather(x, dim, index), with an index that differs by rank or with sharded rows.
[[nodiscard]] bool run_lookup(LocalOp& op);
// where(condition, rows, 0), where(condition, 0, rows) and rows * boolean: zeros for the rows of other ranks.
[[nodiscard]] bool run_mask(LocalOp& op);
// dynamic_slice(x, (starts), (sizes)): a local slice of a replicated value.
[[nodiscard]] bool run_dynamic_slice(LocalOp& op);

}  // namespace tpplan
