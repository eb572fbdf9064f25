// split, chunk, unbind, tensor_split, narrow and select: parts of one dim.
#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "ops/layout_parts.h"
#include "ops/local_counts.h"
#include "ops/op_rules.h"

namespace tpplan {
namespace {

// Returns the bounds of the parts of a dim of `size`, with the numbers of `rank`, or with the traced ones if `traced`
// is set.
std::vector<Interval> bounds_of(const OpCall& call, int64_t size, size_t rank, bool traced, std::string& fault) {
  std::vector<Interval> bounds;
  const auto value = [&](const PerRankNumber& n) { return traced ? n.traced : n.local[rank]; };
  const auto every = [&](int64_t step) {
    for (int64_t at = 0; at < size || bounds.empty(); at += std::max<int64_t>(1, step))
      bounds.push_back({at, std::min(size, at + step)});
  };
  if (call.node.op == OpId::Chunk) {
    const int64_t n = std::max<int64_t>(1, value(number_at(call, 1, "chunks", 1)));
    const int64_t step = (size + n - 1) / n;
    if (step == 0) return std::vector<Interval>(static_cast<size_t>(n), Interval{0, 0});
    every(step);
  } else if (call.node.op == OpId::Split || call.node.op == OpId::SplitWithSizes) {
    std::string_view keyword = call.node.op == OpId::Split ? "split_size_or_sections" : "split_sizes";
    if (find_arg(call, 1, keyword) == nullptr) keyword = "split_size";
    const GraphArg* arg = find_arg(call, 1, keyword);
    std::vector<PerRankNumber> sizes = sizes_at(call, 1, keyword);
    int64_t global = 0, at = 0;
    for (const PerRankNumber& n : sizes) global += n.traced;
    for (PerRankNumber& n : sizes) {
      if (n.use != LiteralUse::Global && size * call.counts->ranks == global) divide_by_ranks(call, n);
    }
    if (arg != nullptr && arg->kind != ArgKind::Tuple) {
      if (!sizes.empty()) every(value(sizes.front()));
    } else if (arg != nullptr) {
      for (const PerRankNumber& n : sizes) {
        bounds.push_back({at, at + value(n)});
        at += value(n);
      }
      if (at != size) fault = fmt::format("the part sizes add up to {}, but the dim has {}", at, size);
    }
  } else if (call.node.op == OpId::TensorSplit) {
    const int64_t n = std::max<int64_t>(1, value(number_at(call, 1, "indices_or_sections", 1)));
    for (int64_t i = 0, at = 0; i < n; ++i) {
      const int64_t length_of = size / n + (i < size % n);
      bounds.push_back({at, at + length_of});
      at += length_of;
    }
  } else if (call.node.op == OpId::Unbind) {
    for (int64_t i = 0; i < size; ++i) bounds.push_back({i, i + 1});
  } else if (call.node.op == OpId::Narrow) {
    int64_t begin = value(number_at(call, 2, "start", 0));
    if (begin < 0) begin += size;
    const int64_t n = value(number_at(call, 3, "length", 0));
    bounds.push_back({begin, begin + n});
    if (begin + n > size) fault = fmt::format("{}..{} is out of range for size {}", begin, begin + n - 1, size);
  } else {  // select
    int64_t at = value(number_at(call, 2, "index", 0));
    if (at < 0) at += size;
    bounds.push_back({at, at + 1});
    if (at < 0 || at >= size) fault = fmt::format("index {} is out of range for size {}", at, size);
  }
  return bounds;
}

}  // namespace

void rule_split(OpCall& call, OpResult& result) {
  const auto x = tensor_at(call, 0);
  if (!x) return;
  const bool drops = call.node.op == OpId::Unbind || call.node.op == OpId::Select;
  const bool dim_first = call.node.op == OpId::Unbind || call.node.op == OpId::Narrow || call.node.op == OpId::Select;
  const size_t dim = dim_index(number_at(call, dim_first ? 1 : 2, "dim", 0).traced, x->shape.size());
  if (dim >= x->shape.size()) return;
  const size_t outs = call.node.out_end - call.node.out_begin;
  const DimLayout held = call.table.maps.maps[x->layout->dims[dim]];
  std::string fault;
  const std::vector<Interval> global = bounds_of(call, held.size, 0, true, fault);
  std::vector<std::vector<Interval>> local;
  fault.clear();
  for (size_t rank = 0; rank < call.table.maps.ranks; ++rank) {
    local.push_back(bounds_of(call, held.local[rank], rank, false, fault));
    if (!fault.empty())
      crash(result, Code::OperandSizesDiffer,
            fmt::format("{} of dim {}: {} on rank {} (global size {})", name_of(call), dim, fault, rank, held.size));
    if (local.back().size() != global.size())
      crash(result, Code::OperandSizesDiffer,
            fmt::format("{} of dim {} returns {} parts on rank {}, but the model expects {}", name_of(call), dim,
                        local.back().size(), rank, global.size()));
  }
  for (size_t part = 0; part < outs; ++part) {
    ValueLayout out = *x->layout;
    out.is_dtensor = false;
    out.wrong = false;
    if (result.crash.empty() && part < global.size()) {
      std::vector<LocalSlice> slices;
      std::vector<int64_t> sizes;
      for (const auto& bounds : local) {
        slices.push_back({bounds[part].begin, bounds[part].end, 1});
        sizes.push_back(length(bounds[part]));
      }
      std::string reason;
      const auto map = slice_layout(call.table.maps, x->layout->dims[dim], slices,
                                    {global[part].begin, global[part].end, 1}, reason);
      if (!map)
        mark_wrong(
            result, Code::ShardsMismatch,
            fmt::format("part {} of {} along dim {} selects other elements of the shard than of the full tensor: {}",
                        part, name_of(call), dim, reason));
      out.dims[dim] = map ? *map
                          : unknown_dim(call.table.maps, length(global[part]), std::move(sizes),
                                        call.table.maps.maps[x->layout->dims[dim]].axes);
      result.segments.push_back(
          {static_cast<uint32_t>(part), static_cast<uint32_t>(dim), global[part].begin, global[part].end});
    }
    if (drops) out.dims.erase(out.dims.begin() + static_cast<std::ptrdiff_t>(dim));
    append_result(result, std::move(out));
  }
}

}  // namespace tpplan
