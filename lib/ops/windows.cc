// im2col and col2im (torch.nn.functional.unfold and fold): windows of a picture as columns, [N, C, H, W] to
// [N, C x window, places] and back; each channel by itself.
#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "ops/merge_maps.h"
#include "ops/op_rules.h"
#include "ops/regroup_maps.h"
#include "ops/window_sizes.h"

namespace tpplan {
namespace {

int64_t window_of(const OpCall& call, size_t position) {
  const std::vector<RankNumber> sizes = numbers_at(call, position, "kernel_size");
  if (sizes.empty()) return 0;
  return sizes.front().traced * sizes.back().traced;
}

// Channels that a rank holds in part, or none of: torch refuses both.
MapId channels_of(OpCall& call, OpResult& result, MapId map, int64_t window) {
  MapTable& maps = call.table.maps;
  const DimMap held = maps.maps[map];
  std::vector<std::vector<int64_t>> local(2, std::vector<int64_t>(maps.ranks, window));
  for (size_t rank = 0; rank < maps.ranks; ++rank) {
    local[0][rank] = held.local[rank] / window;
    if (held.local[rank] % window != 0 || held.local[rank] == 0)
      crash(result, Code::TP5102,
            fmt::format("{} of windows of {}, and rank {} holds {} of {} elements", name_of(call), window, rank,
                        held.local[rank], held.size));
  }
  const int64_t sizes[] = {held.size / window, window};
  std::string fault = "the pieces are no whole channels";
  const MapId from[] = {map};
  const auto split = result.crash.empty() ? regroup_maps(maps, from, sizes, local, fault) : std::nullopt;
  if (split && is_whole(maps, split->back())) return split->front();
  make_wrong(result, Code::TP5103, fmt::format("{} goes through the pieces of dim 1: {}", name_of(call), fault));
  return any_map(maps, sizes[0], std::move(local[0]), held.axes);
}

void need_whole(OpCall& call, OpResult& result, const Operand& x, size_t dim) {
  if (!is_whole(call.table.maps, x.layout->dims[dim])) say_pieces(call, result, dim, x.layout->dims[dim]);
}

}  // namespace

void rule_windows(OpCall& call, OpResult& result) {
  const auto x = tensor_at(call, 0, "input");
  const bool to_columns = call.name == "im2col";
  const auto target = out_shape(call);
  const int64_t window = window_of(call, to_columns ? 1 : 2);
  if (!x || window <= 0 || x->shape.size() < (to_columns ? 3 : 2)) return;
  const size_t channel = x->shape.size() - (to_columns ? 3 : 2);
  MapTable& maps = call.table.maps;
  Spread out;
  out.partial = x->layout->partial;
  out.zero = x->layout->zero;
  out.dims.assign(x->layout->dims.begin(), x->layout->dims.begin() + static_cast<std::ptrdiff_t>(channel));
  if (to_columns) {
    const MapId parts[] = {x->layout->dims[channel], whole_map(maps, window)};
    for (const int64_t size : maps.maps[parts[0]].local) {
      if (size == 0) crash(result, Code::TP5102, fmt::format("{}, and a rank has no channels", name_of(call)));
    }
    out.dims.push_back(merge_maps(call, result, parts));
  } else {
    out.dims.push_back(channels_of(call, result, x->layout->dims[channel], window));
  }
  const std::vector<RankNumber> asked = to_columns ? std::vector<RankNumber>{} : numbers_at(call, 1, "output_size");
  const auto asked_size = [&](size_t dim, size_t rank) {
    return asked.empty() ? target[target.size() - 2 + dim] : asked[std::min(dim, asked.size() - 1)].local[rank];
  };
  for (size_t dim = channel + 1; dim < x->shape.size(); ++dim) {
    need_whole(call, result, *x, dim);
    for (size_t rank = 0; rank < maps.ranks && !to_columns; ++rank) {
      const int64_t picture[] = {asked_size(0, rank), asked_size(1, rank)};
      const int64_t places = window_places(call, 2, picture, rank), held = maps.maps[x->layout->dims[dim]].local[rank];
      if (held == places) continue;
      crash(result, Code::TP5102,
            fmt::format("{} of {} places, and rank {} holds {}", name_of(call), places, rank, held));
    }
  }
  for (size_t i = 0; out.dims.size() < target.size(); ++i) {
    const int64_t size = target[out.dims.size()];
    out.dims.push_back(asked.empty() ? whole_map(maps, size)
                                     : any_map(maps, size, asked[std::min(i, asked.size() - 1)].local));
  }
  check_layout(call, result, out);
  give(result, std::move(out));
}

}  // namespace tpplan
