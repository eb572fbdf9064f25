// The items of an index in brackets, for getitem and setitem.
#pragma once

#include "ops/layout_parts.h"
#include "ops/op_call.h"

namespace tpplan {

enum class IndexKind : uint8_t { NewAxis, Slice, Number, Tensor, Mask, List };

struct IndexItem {
  IndexKind kind = IndexKind::Slice;
  size_t dim = 0;                   // the first dim of the indexed tensor that it indexes (not NewAxis)
  size_t dims = 1;                  // number of dims: several for a mask, none for a new axis
  const GraphArg* begin = nullptr;  // Slice: nullptr or None if it is omitted
  const GraphArg* end = nullptr;
  const GraphArg* step = nullptr;
  const GraphArg* number = nullptr;
  std::optional<Operand> tensor;  // Tensor, Mask
  int64_t list = 0;               // List: number of entries
};

// Returns the items in order, one for every dim that is indexed or kept.
[[nodiscard]] std::vector<IndexItem> read_index(const OpCall& call, size_t ndim);

// Returns the slice of `size` elements that the item selects, with Python's meaning of None and negative indices.
[[nodiscard]] LocalSlice slice_of_item(const OpCall& call, const IndexItem& item, int64_t size, size_t rank,
                                       bool traced);

// Computes the layout of a dim after a slice. Returns false with the reason in `result` if the local slices select
// other elements than the global slice.
[[nodiscard]] bool slice_dim(OpCall& call, OpResult& result, const IndexItem& item, DimLayoutId map,
                             DimLayoutId& sliced);

// True if the item selects its full dim unchanged.
[[nodiscard]] bool is_full_slice(const IndexItem& item);

}  // namespace tpplan
