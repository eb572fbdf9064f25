// x[...]: slices, numbers, new axes, tensors of indices, masks.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <tuple>

#include "ops/index_items.h"
#include "ops/op_rules.h"

namespace tpplan {
namespace {

// A number picks one element of a dim: the same one of the whole on every rank.
void pick(OpCall& call, OpResult& result, const IndexItem& item, MapId map, const RankNumber& number) {
  const DimMap held = call.table.maps.maps[map];
  std::vector<LocalSlice> local;
  for (size_t rank = 0; rank < call.table.maps.ranks; ++rank) {
    int64_t n = number.local[rank];
    if (n < 0) n += held.local[rank];
    if (n < 0 || n >= held.local[rank]) {
      crash(result, Code::TP5102,
            fmt::format("index {} of dim {}, of which rank {} holds {}", number.local[rank], item.dim, rank,
                        held.local[rank]));
      return;
    }
    local.push_back({n, n + 1, 1});
  }
  const int64_t n = number.traced < 0 ? number.traced + held.size : number.traced;
  std::string fault;
  if (!slice_map(call.table.maps, map, local, {n, n + 1, 1}, fault))
    make_wrong(
        result, Code::TP5107,
        fmt::format("an index into dim {} picks another element of a piece than of the whole: {}", item.dim, fault));
}

void need_whole(OpCall& call, OpResult& result, MapId map, size_t dim, std::string_view what) {
  if (call.table.maps.maps[map].kind == MapKind::Whole) return;
  make_wrong(result, Code::TP5113,
             fmt::format("{} of dim {}, of which ranks hold pieces: {}", what, dim, map_text(call.table.maps, map)));
}

}  // namespace

void rule_getitem(OpCall& call, OpResult& result) {
  const auto x = tensor_at(call, 0);
  if (!x) return;
  const auto target = out_shape(call);
  Spread out;
  out.partial = x->layout->partial;
  out.zero = x->layout->zero;
  const std::vector<IndexItem> items = read_index(call, x->shape.size());
  // Dims that tensors index come together: where the first stands if they are neighbours, else in front.
  std::vector<MapId> indexed;
  size_t indexed_at = 0, groups = 0;
  bool last_indexed = false, view = x->layout->local_view;
  for (const IndexItem& item : items) {
    const bool by_number_tensor = item.kind == IndexKind::Tensor && item.tensor->shape.empty();
    const bool advanced = item.kind == IndexKind::Mask || item.kind == IndexKind::List ||
                          (item.kind == IndexKind::Tensor && !by_number_tensor);
    if (advanced) {
      view = false;
      if (!last_indexed && groups++ == 0) indexed_at = out.dims.size();
      if (item.tensor && item.tensor->layout->partial)
        make_wrong(result, Code::TP5108, "an index is a sum that is still open");
      for (size_t d = 0; d < item.dims; ++d)
        need_whole(call, result, x->layout->dims[item.dim + d], item.dim + d,
                   item.kind == IndexKind::Mask ? "a mask" : "indices");
      std::vector<MapId> maps;
      if (item.kind == IndexKind::Tensor) {
        maps = item.tensor->layout->dims;
      } else if (item.kind == IndexKind::List) {
        maps = {whole_map(call.table.maps, item.list)};
      } else {
        for (size_t d = 0; d < item.dims; ++d) {
          need_whole(call, result, item.tensor->layout->dims[d], d, "a mask");
          join(call, result, x->layout->dims[item.dim + d], item.tensor->layout->dims[d], false,
               fmt::format("dim {}", item.dim + d));
        }
        const size_t at = std::min(indexed_at, target.empty() ? 0 : target.size() - 1);
        maps = {whole_map(call.table.maps, target.empty() ? 1 : target[at])};
      }
      if (maps.size() > indexed.size())
        indexed.insert(indexed.begin(), maps.size() - indexed.size(), whole_map(call.table.maps, 1));
      for (size_t d = 0; d < maps.size(); ++d) {
        MapId& slot = indexed[indexed.size() - maps.size() + d];
        slot = join(call, result, slot, maps[d], true, "an index");
      }
    } else if (item.kind == IndexKind::NewAxis) {
      out.dims.push_back(whole_map(call.table.maps, 1));
    } else if (item.kind == IndexKind::Number) {
      const GraphArg& number = *item.number;
      if (is_number(&number)) pick(call, result, item, x->layout->dims[item.dim], number_of(call, number));
    } else if (by_number_tensor) {
      need_whole(call, result, x->layout->dims[item.dim], item.dim, "an index");
    } else {
      MapId sliced = x->layout->dims[item.dim];
      if (!takes_all(item)) {
        std::ignore =
            slice_dim(call, result, item, x->layout->dims[item.dim], sliced);  // the reason stands in `result`
        const LocalSlice whole = slice_of(call, item, x->shape[item.dim], 0, true);
        if (whole.step == 1) result.segments.push_back({0, static_cast<uint32_t>(item.dim), whole.begin, whole.end});
      }
      out.dims.push_back(sliced);
    }
    last_indexed = advanced;
  }
  if (groups > 0)
    out.dims.insert(out.dims.begin() + static_cast<std::ptrdiff_t>(groups == 1 ? indexed_at : 0), indexed.begin(),
                    indexed.end());
  if (result.segments.size() != 1) result.segments.clear();
  out.local_view = view;
  check_layout(call, result, out);
  give(result, std::move(out));
}

}  // namespace tpplan
