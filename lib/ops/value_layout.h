// The layout of a value: what the ranks hold, and which placements a DTensor declares.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "base/keyed_hash.h"
#include "model/op_graph.h"
#include "ops/dim_layout.h"
#include "sharding/placement.h"

namespace tpplan {

using ValueLayoutId = uint32_t;
// A DTensor's placements, one for each of the table's axes.
using DeclaredPlacements = std::vector<Placement>;

// `dims` and the flags are the actual layout, in terms of the traced value. `declared` has the declared placements if
// the value is a DTensor, whose placement and shape torch does not check (DTensor.from_local has run_check=False, torch
// 2.13). Both are needed: torch chooses collectives by the declared placements, and the actual layout determines the
// result; if they differ, a run continues silently. Layouts are interned: equal ones have one id, and an operation
// whose operands have the same ids as an earlier one has the same result.
struct ValueLayout {
  std::vector<DimLayoutId> dims;
  AxisMask partial = 0;     // partial over these axes
  bool zero = false;        // constant 0 or uninitialised memory: fits complete and partial values
  bool wrong = false;       // differs from the traced value, for a reason that is already reported
  bool local_view = false;  // made by to_local(): a view that must not be written to
  bool is_dtensor = false;
  DeclaredPlacements declared;  // of a DTensor
  std::vector<int64_t> declared_shape;
  bool operator==(const ValueLayout&) const = default;
};

struct ValueLayoutTable {
  DimLayoutTable maps;
  std::deque<ValueLayout> layouts;  // a deque, so that pointers into it stay valid
  std::vector<uint8_t> is_plain;    // replicated and no DTensor: as in the traced step
  TextMap<std::string, ValueLayoutId> index;
};

[[nodiscard]] ValueLayoutId intern(ValueLayoutTable& table, const ValueLayout& layout);

// Returns the replicated layout.
[[nodiscard]] ValueLayout replicated_layout(ValueLayoutTable& table, std::span<const int64_t> shape);

// Returns the replicated layout of every shape of a graph, by its index there.
[[nodiscard]] std::vector<ValueLayoutId> replicated_layouts(ValueLayoutTable& table, const OpGraph& graph);

// Returns the layout of a DTensor with these placements: axes shard one after the other.
[[nodiscard]] ValueLayout placed_layout(ValueLayoutTable& table, std::span<const int64_t> shape,
                                        const DeclaredPlacements& declared);

[[nodiscard]] inline int64_t local_size(const ValueLayoutTable& table, const ValueLayout& layout, size_t dim,
                                        size_t rank) {
  return table.maps.maps[layout.dims[dim]].local[rank];
}
[[nodiscard]] std::vector<int64_t> local_shape(const ValueLayoutTable& table, const ValueLayout& layout, size_t rank);

// True if some dim is sharded.
[[nodiscard]] bool is_sharded(const ValueLayoutTable& table, const ValueLayout& layout);
// Returns the axes that shard some dim.
[[nodiscard]] AxisMask sharding_axes(const ValueLayoutTable& table, const ValueLayout& layout);
// True if no dim is sharded or permuted.
[[nodiscard]] bool is_all_replicated(const ValueLayoutTable& table, const ValueLayout& layout);

// "whole", "dim 2: 0..63 | 64..127", "partial sum".
[[nodiscard]] std::string layout_text(const ValueLayoutTable& table, const ValueLayout& layout);

}  // namespace tpplan
