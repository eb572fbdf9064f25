// An index in brackets, item by item, as getitem and setitem both read it.
#pragma once

#include "ops/map_parts.h"
#include "ops/op_call.h"

namespace tpplan {

enum class IndexKind : uint8_t { NewAxis, Slice, Number, Tensor, Mask, List };

struct IndexItem {
  IndexKind kind = IndexKind::Slice;
  size_t dim = 0;                   // the first dim of the indexed tensor that it is about (not NewAxis)
  size_t dims = 1;                  // how many: a mask has several, a new axis none
  const GraphArg* begin = nullptr;  // Slice: nullptr or None where it is left out
  const GraphArg* end = nullptr;
  const GraphArg* step = nullptr;
  const GraphArg* number = nullptr;
  std::optional<Operand> tensor;  // Tensor, Mask
  int64_t list = 0;               // List: how many entries
};

// The items in order, one for every dim that is indexed or kept.
[[nodiscard]] std::vector<IndexItem> read_index(const OpCall& call, size_t ndim);

// What a slice takes of `size` elements, with Python's reading of None and of numbers below 0.
[[nodiscard]] LocalSlice slice_of(const OpCall& call, const IndexItem& item, int64_t size, size_t rank, bool traced);

// The dim's map after a slice. False, with the reason in `result`, when ranks take other elements than the whole does.
[[nodiscard]] bool slice_dim(OpCall& call, OpResult& result, const IndexItem& item, MapId map, MapId& sliced);

// True where the item takes the whole of its dim as it is.
[[nodiscard]] bool takes_all(const IndexItem& item);

}  // namespace tpplan
