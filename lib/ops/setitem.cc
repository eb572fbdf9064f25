// x[...] = y: a new x, whose indexed part is y.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <tuple>

#include "ops/index_items.h"
#include "ops/op_rules.h"

namespace tpplan {
namespace {

// The part of x that is written.
struct WrittenPart {
  std::vector<MapId> maps;   // by its dim
  std::vector<size_t> dims;  // by its dim: the dim of x that it is all of; as many as x has dims: none
  bool is_all = true;        // of x
  bool advanced = false;     // by a mask or several indices: its dims are not followed
  size_t indices = 0;
};

void add_dim(WrittenPart& part, MapId map, size_t dim) {
  part.maps.push_back(map);
  part.dims.push_back(dim);
}

// Where a number is written: the mask goes along with x.
void write_by_mask(OpCall& call, OpResult& result, const Operand& x, const IndexItem& item) {
  for (size_t d = 0; d < item.dims; ++d)
    join(call, result, x.layout->dims[item.dim + d], item.tensor->layout->dims[d], false,
         fmt::format("dim {}", item.dim + d));
  if (item.tensor->layout->partial) make_wrong(result, Code::TP5108, "a mask is a sum that is still open");
}

// Elements that are named by their numbers in the whole: ranks must hold all of the dim.
void write_by_index(OpCall& call, OpResult& result, const Operand& x, const IndexItem& item, WrittenPart& part) {
  for (size_t d = 0; d < item.dims; ++d) {
    if (!is_whole(call.table.maps, x.layout->dims[item.dim + d]))
      make_wrong(result, Code::TP5113,
                 fmt::format("a write by index to dim {}, of which ranks hold pieces", item.dim + d));
  }
  if (item.tensor && (item.tensor->layout->partial || !is_all_whole(call.table, *item.tensor->layout)))
    make_wrong(result, Code::TP5113,
               fmt::format("a write by an index that is not whole on every rank: {}",
                           layout_text(call.table, *item.tensor->layout)));
  // The dims of one index stand where it stands; a mask and several indices have dims of their own.
  const bool by_dims = item.kind == IndexKind::Tensor || item.kind == IndexKind::List;
  if (by_dims && !(item.tensor && item.tensor->shape.empty())) ++part.indices;
  part.advanced = part.advanced || item.kind == IndexKind::Mask || part.indices > 1;
  const size_t index_dims = item.kind == IndexKind::List ? 1 : item.tensor ? item.tensor->shape.size() : 0;
  for (size_t d = 0; by_dims && d < index_dims; ++d) {
    // Of an index that is cut the write is wrong already; what counts is the size that ranks have of it.
    const MapId own = item.tensor ? item.tensor->layout->dims[d] : whole_map(call.table.maps, item.list);
    const bool is_cut_index = call.table.maps.maps[own].kind == MapKind::Cut;
    add_dim(part, is_cut_index ? whole_map(call.table.maps, item.tensor->shape[d]) : own, x.shape.size());
  }
}

WrittenPart written_part(OpCall& call, OpResult& result, const Operand& x, bool writes_tensor) {
  WrittenPart part;
  for (const IndexItem& item : read_index(call, x.shape.size())) {
    if (item.kind == IndexKind::NewAxis) {
      add_dim(part, whole_map(call.table.maps, 1), x.shape.size());
    } else if (item.kind == IndexKind::Slice) {
      MapId sliced = x.layout->dims[item.dim];
      if (!takes_all(item))
        std::ignore = slice_dim(call, result, item, x.layout->dims[item.dim], sliced);  // the reason: `result`
      part.is_all = part.is_all && takes_all(item);
      add_dim(part, sliced, takes_all(item) ? item.dim : x.shape.size());
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

// A tensor meets the part that it is written to, aligned at the end. What is all of a dim of x decides over it.
void meet_part(OpCall& call, OpResult& result, const WrittenPart& part, const Operand& y, Spread& out) {
  const size_t ndim = std::min(part.maps.size(), y.layout->dims.size());
  for (size_t i = 0; i < ndim; ++i) {
    const size_t at = part.maps.size() - 1 - i;
    const MapId given = y.layout->dims[y.layout->dims.size() - 1 - i];
    const DimMap held = call.table.maps.maps[part.maps[at]];
    const DimMap written = call.table.maps.maps[given];
    for (size_t rank = 0; rank < call.table.maps.ranks; ++rank) {
      if (written.local[rank] == 1 || written.local[rank] == held.local[rank]) continue;
      crash(result, Code::TP5102,
            fmt::format("dim {} of what is written is {} on rank {}, and the place for it {}", at, written.local[rank],
                        rank, held.local[rank]));
      break;
    }
    const MapId joined = join(call, result, part.maps[at], given, true, fmt::format("dim {}", at));
    if (part.dims[at] < out.dims.size() && written.size != 1) out.dims[part.dims[at]] = joined;
  }
}

// Memory that nobody has filled takes the value's sum; else both must be alike.
void combine(OpCall& call, OpResult& result, const Spread& x, const std::optional<Operand>& y, bool is_all,
             Spread& out) {
  const GraphArg* number = find_arg(call, 2, "value");
  const bool writes_nonzero = !y && number != nullptr && number->number != 0;
  const AxisMask y_partial = y ? y->layout->partial : 0;
  const bool y_zero = y ? y->layout->zero : !writes_nonzero;
  if (is_all && y) {
    out.partial = y_partial;
    out.zero = y_zero;
  } else if (y_partial != 0) {
    if (x.partial != y_partial && !x.zero)
      make_wrong(result, Code::TP5109, "an open sum is written into a complete tensor");
    out.partial = y_partial;
    out.zero = false;
  } else {
    if (x.partial && !y_zero)
      make_wrong(result, Code::TP5109, "a complete value is written into a sum that is still open");
    out.zero = x.zero && y_zero;
  }
}

}  // namespace

void rule_setitem(OpCall& call, OpResult& result) {
  const auto x = tensor_at(call, 0);
  if (!x) return;
  const auto y = tensor_at(call, 2, "value");
  result.is_write = true;
  Spread out = *x->layout;
  out.is_dtensor = false;
  out.wrong = false;
  const WrittenPart part = written_part(call, result, *x, y.has_value());
  if (y && part.advanced && (!is_all_whole(call.table, *y->layout) || !is_all_whole(call.table, *x->layout)))
    make_wrong(result, Code::TP5113, "a write by several indices or by a mask, of what is not whole on every rank");
  if (y && !part.advanced) meet_part(call, result, part, *y, out);
  combine(call, result, *x->layout, y, part.is_all, out);
  check_layout(call, result, out);
  give(result, std::move(out));
}

}  // namespace tpplan
