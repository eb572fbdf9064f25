// x[...] = y: returns a new x with y at the index.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <tuple>

#include "ops/index_items.h"
#include "ops/op_rules.h"

namespace tpplan {
namespace {

// The written part of x.
struct WrittenPart {
  std::vector<DimLayoutId> maps;  // by dim of the part
  std::vector<size_t> dims;       // by dim of the part: the dim of x that it covers; x's ndim if none
  bool is_all = true;             // it is all of x
  bool advanced = false;          // by a mask or by several indices: dims are not tracked
  size_t indices = 0;
};

void add_dim(WrittenPart& part, DimLayoutId map, size_t dim) {
  part.maps.push_back(map);
  part.dims.push_back(dim);
}

// Combines the layouts of x and a mask, to write a number.
void write_by_mask(OpCall& call, OpResult& result, const Operand& x, const IndexItem& item) {
  for (size_t d = 0; d < item.dims; ++d)
    join(call, result, x.layout->dims[item.dim + d], item.tensor->layout->dims[d], false,
         fmt::format("dim {}", item.dim + d));
  if (item.tensor->layout->partial)
    mark_wrong(result, Code::PartialUsedAsFull, "the mask is a pending partial sum, but is used as the full sum");
}

// Checks a write by global indices, for which ranks must hold the full dim.
void write_by_index(OpCall& call, OpResult& result, const Operand& x, const IndexItem& item, WrittenPart& part) {
  for (size_t d = 0; d < item.dims; ++d) {
    if (!is_fully_replicated(call.table.maps, x.layout->dims[item.dim + d]))
      mark_wrong(result, Code::ReductionOverShard,
                 fmt::format("a write by index to sharded dim {} reaches only the local shard", item.dim + d));
  }
  if (item.tensor && (item.tensor->layout->partial || !is_all_replicated(call.table, *item.tensor->layout)))
    mark_wrong(
        result, Code::ReductionOverShard,
        fmt::format("a write by an index that is not replicated: {}", layout_text(call.table, *item.tensor->layout)));
  // The dims of a single index replace the indexed one. A mask and several indices have dims of their own.
  const bool by_dims = item.kind == IndexKind::Tensor || item.kind == IndexKind::List;
  if (by_dims && !(item.tensor && item.tensor->shape.empty())) ++part.indices;
  part.advanced = part.advanced || item.kind == IndexKind::Mask || part.indices > 1;
  const size_t index_dims = item.kind == IndexKind::List ? 1 : item.tensor ? item.tensor->shape.size() : 0;
  for (size_t d = 0; by_dims && d < index_dims; ++d) {
    // A sharded index is already an error; only its size matters here.
    const DimLayoutId index_layout =
        item.tensor ? item.tensor->layout->dims[d] : replicated_dim(call.table.maps, item.list);
    const bool is_sharded_index = call.table.maps.maps[index_layout].kind == DimLayoutKind::Sharded;
    add_dim(part, is_sharded_index ? replicated_dim(call.table.maps, item.tensor->shape[d]) : index_layout,
            x.shape.size());
  }
}

WrittenPart written_part(OpCall& call, OpResult& result, const Operand& x, bool writes_tensor) {
  WrittenPart part;
  for (const IndexItem& item : read_index(call, x.shape.size())) {
    if (item.kind == IndexKind::NewAxis) {
      add_dim(part, replicated_dim(call.table.maps, 1), x.shape.size());
    } else if (item.kind == IndexKind::Slice) {
      DimLayoutId sliced = x.layout->dims[item.dim];
      if (!is_full_slice(item))
        std::ignore = slice_dim(call, result, item, x.layout->dims[item.dim], sliced);  // a failure is in `result`
      part.is_all = part.is_all && is_full_slice(item);
      add_dim(part, sliced, is_full_slice(item) ? item.dim : x.shape.size());
    } else {
      part.is_all = false;
      if (item.kind == IndexKind::Mask && !writes_tensor)
        write_by_mask(call, result, x, item);
      else
        write_by_index(call, result, x, item, part);
    }
  }
  return part;
}

// Combines the layout of a written tensor with that of the part, aligned at the last dims. If the part covers a dim of
// x, the result has the combined layout.
void combine_part(OpCall& call, OpResult& result, const WrittenPart& part, const Operand& y, ValueLayout& out) {
  const size_t ndim = std::min(part.maps.size(), y.layout->dims.size());
  for (size_t i = 0; i < ndim; ++i) {
    const size_t at = part.maps.size() - 1 - i;
    const DimLayoutId given = y.layout->dims[y.layout->dims.size() - 1 - i];
    const DimLayout held = call.table.maps.maps[part.maps[at]];
    const DimLayout written = call.table.maps.maps[given];
    for (size_t rank = 0; rank < call.table.maps.ranks; ++rank) {
      if (written.local[rank] == 1 || written.local[rank] == held.local[rank]) continue;
      crash(result, Code::OperandSizesDiffer,
            fmt::format("dim {} of the written value is {} on rank {}, but the target has {}", at, written.local[rank],
                        rank, held.local[rank]));
      break;
    }
    const DimLayoutId joined = join(call, result, part.maps[at], given, true, fmt::format("dim {}", at));
    if (part.dims[at] < out.dims.size() && written.size != 1) out.dims[part.dims[at]] = joined;
  }
}

// Combines partial states. Uninitialised or zero memory takes that of the value; otherwise both must be equal.
void combine(OpCall& call, OpResult& result, const ValueLayout& x, const std::optional<Operand>& y, bool is_all,
             ValueLayout& out) {
  const GraphArg* number = find_arg(call, 2, "value");
  const bool writes_nonzero = !y && number != nullptr && number->number != 0;
  const AxisMask y_partial = y ? y->layout->partial : 0;
  const bool y_zero = y ? y->layout->zero : !writes_nonzero;
  if (is_all && y) {
    out.partial = y_partial;
    out.zero = y_zero;
  } else if (y_partial != 0) {
    if (x.partial != y_partial && !x.zero)
      mark_wrong(result, Code::ReplicatedValueReduced,
                 "a pending partial sum is written into a full tensor: the reduction counts the tensor on every rank");
    out.partial = y_partial;
    out.zero = false;
  } else {
    if (x.partial && !y_zero)
      mark_wrong(result, Code::ReplicatedValueReduced,
                 "a full value is written into a pending partial sum: the reduction counts it on every rank");
    out.zero = x.zero && y_zero;
  }
}

}  // namespace

void rule_setitem(OpCall& call, OpResult& result) {
  const auto x = tensor_at(call, 0);
  if (!x) return;
  const auto y = tensor_at(call, 2, "value");
  result.is_write = true;
  ValueLayout out = *x->layout;
  out.is_dtensor = false;
  out.wrong = false;
  const WrittenPart part = written_part(call, result, *x, y.has_value());
  if (y && part.advanced && (!is_all_replicated(call.table, *y->layout) || !is_all_replicated(call.table, *x->layout)))
    mark_wrong(result, Code::ReductionOverShard,
               "a write by several indices or by a mask expects replicated operands, but one is not");
  if (y && !part.advanced) combine_part(call, result, part, *y, out);
  combine(call, result, *x->layout, y, part.is_all, out);
  check_layout(call, result, out);
  append_result(result, std::move(out));
}

}  // namespace tpplan
