// permute, transpose and similar operations, unsqueeze and squeeze: a new order of dims, or dims of size 1 added or
// removed.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <numeric>

#include "ops/op_rules.h"

namespace tpplan {

namespace {

// Returns the source dim of each dim after a movedim. Dims that it does not name fill the other places in order.
std::vector<size_t> moved_order(const OpCall& call, size_t ndim) {
  const auto from = numbers_at(call, 1, "source"), to = numbers_at(call, 2, "destination");
  const auto dim_of = [ndim](const PerRankNumber& n) { return dim_index(n.traced, ndim) % std::max<size_t>(1, ndim); };
  std::vector<size_t> placed(ndim, ndim);
  std::vector<bool> used(ndim);
  for (size_t i = 0; i < from.size() && i < to.size(); ++i) {
    placed[dim_of(to[i])] = dim_index(from[i].traced, ndim);
    used[dim_of(from[i])] = true;
  }
  size_t next = 0;
  for (size_t i = 0; i < ndim; ++i) {
    if (placed[i] < ndim) continue;
    while (next < ndim && used[next]) ++next;
    if (next < ndim) placed[i] = next++;
  }
  return placed;
}

// Returns the source dim of each dim of the result.
std::vector<size_t> order_of(const OpCall& call, size_t ndim) {
  if (call.node.op == OpId::Movedim) return moved_order(call, ndim);
  std::vector<size_t> order(ndim);
  std::iota(order.begin(), order.end(), 0);
  if (call.node.op == OpId::NumpyT || call.node.op == OpId::T) {
    std::reverse(order.begin(), order.end());
  } else if (call.node.op == OpId::MatrixT || call.node.op == OpId::MatrixH || call.node.op == OpId::Adjoint) {
    if (ndim >= 2) std::swap(order[ndim - 1], order[ndim - 2]);
  } else if (call.node.op == OpId::Permute) {
    const auto dims = numbers_at(call, 1, "dims");
    for (size_t i = 0; i < ndim && i < dims.size(); ++i) order[i] = dim_index(dims[i].traced, ndim);
  } else {  // transpose, swapaxes, swapdims
    const auto a = dim_index(number_at(call, 1, "dim0", 0).traced, ndim),
               b = dim_index(number_at(call, 2, "dim1", 1).traced, ndim);
    if (a < ndim && b < ndim) std::swap(order[a], order[b]);
  }
  return order;
}

// squeeze removes dims of size 1. It would also remove a sharded dim on a rank with one element of it.
std::vector<DimLayoutId> squeezed(OpCall& call, OpResult& result, const Operand& x) {
  const std::vector<PerRankNumber> requested = numbers_at(call, 1, "dim");
  const size_t ndim = x.layout->dims.size();
  std::vector<DimLayoutId> dims;
  for (size_t dim = 0; dim < ndim; ++dim) {
    const bool drops =
        requested.empty() || std::any_of(requested.begin(), requested.end(),
                                         [&](const PerRankNumber& n) { return dim_index(n.traced, ndim) == dim; });
    if (drops && x.shape[dim] == 1) continue;
    const DimLayout& map = call.table.maps.maps[x.layout->dims[dim]];
    if (drops && std::any_of(map.local.begin(), map.local.end(), [](int64_t n) { return n == 1; }))
      crash(result, Code::OperandSizesDiffer,
            fmt::format("{} drops dim {}, because a rank holds one element of {}", name_of(call), dim, map.size));
    dims.push_back(x.layout->dims[dim]);
  }
  return dims;
}

}  // namespace

void rule_permute(OpCall& call, OpResult& result) {
  const auto x = tensor_at(call, 0);
  if (!x) return;
  ValueLayout out = *x->layout;
  out.is_dtensor = false;
  out.wrong = false;
  const size_t ndim = x->layout->dims.size();
  if (call.node.op == OpId::Unsqueeze) {
    const auto at = dim_index(number_at(call, 1, "dim", 0).traced, ndim + 1);
    if (at <= ndim)
      out.dims.insert(out.dims.begin() + static_cast<std::ptrdiff_t>(at), replicated_dim(call.table.maps, 1));
  } else if (call.node.op == OpId::Squeeze) {
    out.dims = squeezed(call, result, *x);
  } else {
    const std::vector<size_t> order = order_of(call, ndim);
    for (size_t i = 0; i < ndim; ++i) {
      if (order[i] < ndim) out.dims[i] = x->layout->dims[order[i]];
    }
  }
  append_result(result, std::move(out));
}

}  // namespace tpplan
