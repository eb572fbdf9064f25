// im2col and col2im (torch.nn.functional.unfold and fold): convert [N, C, H, W] to the columns of windows [N, C *
// window, positions] and back, for each channel separately.
#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "ops/merge_layouts.h"
#include "ops/op_rules.h"
#include "ops/regroup_layouts.h"
#include "ops/window_sizes.h"

namespace tpplan {
namespace {

int64_t window_of(const OpCall& call, size_t position) {
  const std::vector<PerRankNumber> sizes = numbers_at(call, position, "kernel_size");
  if (sizes.empty()) return 0;
  return sizes.front().traced * sizes.back().traced;
}

// Splits the windows off the channels. A rank with incomplete channels or with none is an error in torch.
DimLayoutId channels_of(OpCall& call, OpResult& result, DimLayoutId map, int64_t window) {
  DimLayoutTable& maps = call.table.maps;
  const DimLayout held = maps.maps[map];
  std::vector<std::vector<int64_t>> local(2, std::vector<int64_t>(maps.ranks, window));
  for (size_t rank = 0; rank < maps.ranks; ++rank) {
    local[0][rank] = held.local[rank] / window;
    if (held.local[rank] % window != 0 || held.local[rank] == 0)
      crash(result, Code::OperandSizesDiffer,
            fmt::format("{} needs a multiple of {} elements, but rank {} holds {} of {}", name_of(call), window, rank,
                        held.local[rank], held.size));
  }
  const int64_t sizes[] = {held.size / window, window};
  std::string fault = "the shards split channels";
  const DimLayoutId from[] = {map};
  const auto split = result.crash.empty() ? regroup_layouts(maps, from, sizes, local, fault) : std::nullopt;
  if (split && is_fully_replicated(maps, split->back())) return split->front();
  mark_wrong(result, Code::GlobalSizeInView,
             fmt::format("{} crosses shard boundaries of dim 1: {}", name_of(call), fault));
  return unknown_dim(maps, sizes[0], std::move(local[0]), held.axes);
}

void require_replicated(OpCall& call, OpResult& result, const Operand& x, size_t dim) {
  if (!is_fully_replicated(call.table.maps, x.layout->dims[dim]))
    report_sharded_dim(call, result, dim, x.layout->dims[dim]);
}

}  // namespace

void rule_windows(OpCall& call, OpResult& result) {
  const auto x = tensor_at(call, 0, "input");
  const bool to_columns = call.node.op == OpId::Im2col;
  const auto target = out_shape(call);
  const int64_t window = window_of(call, to_columns ? 1 : 2);
  if (!x || window <= 0 || x->shape.size() < (to_columns ? 3 : 2)) return;
  const size_t channel = x->shape.size() - (to_columns ? 3 : 2);
  DimLayoutTable& maps = call.table.maps;
  ValueLayout out;
  out.partial = x->layout->partial;
  out.zero = x->layout->zero;
  out.dims.assign(x->layout->dims.begin(), x->layout->dims.begin() + static_cast<std::ptrdiff_t>(channel));
  if (to_columns) {
    const DimLayoutId parts[] = {x->layout->dims[channel], replicated_dim(maps, window)};
    for (const int64_t size : maps.maps[parts[0]].local) {
      if (size == 0)
        crash(result, Code::OperandSizesDiffer, fmt::format("{} fails on a rank without channels", name_of(call)));
    }
    out.dims.push_back(merge_layouts(call, result, parts));
  } else {
    out.dims.push_back(channels_of(call, result, x->layout->dims[channel], window));
  }
  const std::vector<PerRankNumber> requested =
      to_columns ? std::vector<PerRankNumber>{} : numbers_at(call, 1, "output_size");
  const auto requested_size = [&](size_t dim, size_t rank) {
    return requested.empty() ? target[target.size() - 2 + dim]
                             : requested[std::min(dim, requested.size() - 1)].local[rank];
  };
  for (size_t dim = channel + 1; dim < x->shape.size(); ++dim) {
    require_replicated(call, result, *x, dim);
    for (size_t rank = 0; rank < maps.ranks && !to_columns; ++rank) {
      const int64_t image[] = {requested_size(0, rank), requested_size(1, rank)};
      const int64_t places = count_windows(call, 2, image, rank), held = maps.maps[x->layout->dims[dim]].local[rank];
      if (held == places) continue;
      crash(result, Code::OperandSizesDiffer,
            fmt::format("{} expects {} window positions, but rank {} holds {}", name_of(call), places, rank, held));
    }
  }
  for (size_t i = 0; out.dims.size() < target.size(); ++i) {
    const int64_t size = target[out.dims.size()];
    out.dims.push_back(requested.empty() ? replicated_dim(maps, size)
                                         : unknown_dim(maps, size, requested[std::min(i, requested.size() - 1)].local));
  }
  check_layout(call, result, out);
  append_result(result, std::move(out));
}

}  // namespace tpplan
