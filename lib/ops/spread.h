// What the ranks of some mesh axes hold of a value, and what the code believes that they hold.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "base/keyed_hash.h"
#include "graph/op_graph.h"
#include "ops/dim_map.h"
#include "sharding/placement.h"

namespace tpplan {

using SpreadId = uint32_t;
// A DTensor's placements, one for each of the table's axes.
using Claim = std::vector<Placement>;

// The truth: `dims` and the flags, told by the recorded value. The claim: a value may be a DTensor, whose placement and
// shape nobody checks against the truth (DTensor.from_local takes run_check=False, torch 2.13). Both are kept, because
// torch decides by the claim what to call, and what ranks then hold follows from the truth: where they part, a run goes
// on without a word. Interned: equal layouts have one id, and an operation whose operands have the ids of another's
// does what that did.
struct Spread {
  std::vector<MapId> dims;
  AxisMask partial = 0;     // the value is the sum of what the ranks along these axes hold
  bool zero = false;        // constant 0, or memory that nobody has filled: fits to complete and to partial
  bool wrong = false;       // not the value of the recorded run, for a reason that was said where it became so
  bool local_view = false;  // made by to_local(): a view that must not be written to
  bool is_dtensor = false;
  Claim claim;  // of a DTensor
  std::vector<int64_t> claimed_shape;
  bool operator==(const Spread&) const = default;
};

struct SpreadTable {
  MapTable maps;
  std::deque<Spread> layouts;     // what points at one stays right while others are added
  std::vector<uint8_t> is_plain;  // whole, complete and no DTensor: nothing is different from the recorded run
  TextMap<std::string, SpreadId> index;
};

[[nodiscard]] SpreadId intern(SpreadTable& table, const Spread& layout);

// Every rank holds all of it.
[[nodiscard]] Spread whole_layout(SpreadTable& table, std::span<const int64_t> shape);

// The same of every shape of a graph, by its number there.
[[nodiscard]] std::vector<SpreadId> whole_layouts(SpreadTable& table, const OpGraph& graph);

// As a DTensor's placements have it: axes cut one after the other.
[[nodiscard]] Spread placed_layout(SpreadTable& table, std::span<const int64_t> shape, const Claim& claim);

[[nodiscard]] inline int64_t local_size(const SpreadTable& table, const Spread& layout, size_t dim, size_t rank) {
  return table.maps.maps[layout.dims[dim]].local[rank];
}
[[nodiscard]] std::vector<int64_t> local_shape(const SpreadTable& table, const Spread& layout, size_t rank);

// True when some dim is a piece: not all of it is on every rank.
[[nodiscard]] bool is_sharded(const SpreadTable& table, const Spread& layout);
// The axes along which some dim is a piece.
[[nodiscard]] AxisMask cut_axes(const SpreadTable& table, const Spread& layout);
// True when all dims are whole in order.
[[nodiscard]] bool is_all_whole(const SpreadTable& table, const Spread& layout);

// "whole", "dim 2: 0..63 | 64..127", "partial sum".
[[nodiscard]] std::string layout_text(const SpreadTable& table, const Spread& layout);

}  // namespace tpplan
