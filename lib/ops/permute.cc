// permute, transpose and their like, unsqueeze and squeeze: dims in another order, or more or fewer of size 1.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <numeric>

#include "ops/op_rules.h"

namespace tpplan {

namespace {

// movedim: some dims get places, the others fill what is left in their order. By place: the dim that comes there.
std::vector<size_t> moved_order(const OpCall& call, size_t ndim) {
  const auto from = numbers_at(call, 1, "source"), to = numbers_at(call, 2, "destination");
  const auto dim_of = [ndim](const RankNumber& n) { return from_end(n.traced, ndim) % std::max<size_t>(1, ndim); };
  std::vector<size_t> placed(ndim, ndim);
  std::vector<bool> used(ndim);
  for (size_t i = 0; i < from.size() && i < to.size(); ++i) {
    placed[dim_of(to[i])] = from_end(from[i].traced, ndim);
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

// By place: the dim that comes there.
std::vector<size_t> order_of(const OpCall& call, size_t ndim) {
  if (call.name == "movedim" || call.name == "moveaxis") return moved_order(call, ndim);
  std::vector<size_t> order(ndim);
  std::iota(order.begin(), order.end(), 0);
  if (call.name == "T" || call.name == "t") {
    std::reverse(order.begin(), order.end());
  } else if (call.name == "mT" || call.name == "mH" || call.name == "adjoint") {
    if (ndim >= 2) std::swap(order[ndim - 1], order[ndim - 2]);
  } else if (call.name == "permute") {
    const auto dims = numbers_at(call, 1, "dims");
    for (size_t i = 0; i < ndim && i < dims.size(); ++i) order[i] = from_end(dims[i].traced, ndim);
  } else {  // transpose, swapaxes, swapdims
    const auto a = from_end(number_at(call, 1, "dim0", 0).traced, ndim),
               b = from_end(number_at(call, 2, "dim1", 1).traced, ndim);
    if (a < ndim && b < ndim) std::swap(order[a], order[b]);
  }
  return order;
}

// squeeze drops dims of size 1: on a rank that has one element of a cut dim it would drop that too.
std::vector<MapId> squeezed(OpCall& call, OpResult& result, const Operand& x) {
  const std::vector<RankNumber> asked = numbers_at(call, 1, "dim");
  const size_t ndim = x.layout->dims.size();
  std::vector<MapId> dims;
  for (size_t dim = 0; dim < ndim; ++dim) {
    const bool drops = asked.empty() || std::any_of(asked.begin(), asked.end(), [&](const RankNumber& n) {
                         return from_end(n.traced, ndim) == dim;
                       });
    if (drops && x.shape[dim] == 1) continue;
    const DimMap& map = call.table.maps.maps[x.layout->dims[dim]];
    if (drops && std::any_of(map.local.begin(), map.local.end(), [](int64_t n) { return n == 1; }))
      crash(result, Code::TP5102,
            fmt::format("{} drops dim {}, of which some rank holds one of {}", name_of(call), dim, map.size));
    dims.push_back(x.layout->dims[dim]);
  }
  return dims;
}

}  // namespace

void rule_permute(OpCall& call, OpResult& result) {
  const auto x = tensor_at(call, 0);
  if (!x) return;
  Spread out = *x->layout;
  out.is_dtensor = false;
  out.wrong = false;
  const size_t ndim = x->layout->dims.size();
  if (call.name == "unsqueeze") {
    const auto at = from_end(number_at(call, 1, "dim", 0).traced, ndim + 1);
    if (at <= ndim) out.dims.insert(out.dims.begin() + static_cast<std::ptrdiff_t>(at), whole_map(call.table.maps, 1));
  } else if (call.name == "squeeze") {
    out.dims = squeezed(call, result, *x);
  } else {
    const std::vector<size_t> order = order_of(call, ndim);
    for (size_t i = 0; i < ndim; ++i) {
      if (order[i] < ndim) out.dims[i] = x->layout->dims[order[i]];
    }
  }
  give(result, std::move(out));
}

}  // namespace tpplan
