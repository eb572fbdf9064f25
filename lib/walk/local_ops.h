// What operations do whose result depends on where a rank stands or on what others have (walk/shard_map_run.cc says
// which runs when): a file for each section. What gives back false is left to others, and nothing was bound.
#pragma once

#include <optional>
#include <vector>

#include "walk/local_op.h"

namespace tpplan {

// ---- local_borders.cc: how values come in and leave ----

// in_spec(x, spec, mesh): the pieces that the spec says, of a program that was recorded on this mesh.
void take_in(LocalOp& op);
// out_spec(x, spec): what leaves is as promised, and every rank of an axis that the spec does not name has the same.
void let_out(LocalOp& op);

// ---- local_collectives.cc ----

void run_psum(LocalOp& op);
void run_extremum(LocalOp& op);  // pmax, pmin
// all_gather(x, dim, axes), the last axis first: what stands together is gathered first.
void run_all_gather(LocalOp& op);
void run_reduce_scatter(LocalOp& op);  // reduce_scatter(x, dim, axes)
// all_to_all(x, cut, joined, axes): one dim is cut, the other is put together.
void run_all_to_all(LocalOp& op);
// amax, amin over pieces: the ranks together have it.
[[nodiscard]] bool run_open_maximum(LocalOp& op);

// ---- local_places.cc: integers of a rank's own ----

void run_axis_index(LocalOp& op);
void run_iota(LocalOp& op);  // iota(sizes, dim): each rank counts from 0
[[nodiscard]] bool has_own_number(const LocalOp& op);

// What stands at an argument, as a function of an integer of the whole model; `base` is that integer.
struct IndexArgument {
  ValueId base = kNoId;
  std::vector<RankFunction> by_rank;
  RankFunction whole;
};
[[nodiscard]] std::optional<IndexArgument> index_argument(const LocalOp& op, const GraphArg& arg);

// Element by element, of functions of the same integers.
[[nodiscard]] bool run_table(LocalOp& op);
// What counts 0, 1, 2.. meets where a rank begins (iota + place * size), or an index of which the rank's beginning was
// taken (iota == token - place * size).
[[nodiscard]] bool run_count(LocalOp& op);

// ---- local_rows.cc: rows of a table of which each rank has some ----

// embedding(index, rows) and gather(x, dim, index), with an index of each rank's own or rows that are cut.
[[nodiscard]] bool run_take(LocalOp& op);
// where(condition, rows, 0), where(condition, 0, rows), rows * truth: zeros where the rank has other rows.
[[nodiscard]] bool run_mask(LocalOp& op);
// dynamic_slice(x, (starts), (sizes)): a rank's own part of what all have.
[[nodiscard]] bool run_dynamic_slice(LocalOp& op);

}  // namespace tpplan
