// split, chunk, unbind, tensor_split, narrow, select: parts of one dim.
#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "ops/map_parts.h"
#include "ops/op_rules.h"

namespace tpplan {
namespace {

// The parts' bounds for a dim of `size`; `rank` kNoId: as recorded.
std::vector<Interval> bounds_of(const OpCall& call, int64_t size, size_t rank, bool traced, std::string& fault) {
  std::vector<Interval> bounds;
  const auto value = [&](const RankNumber& n) { return traced ? n.traced : n.local[rank]; };
  const auto every = [&](int64_t step) {
    for (int64_t at = 0; at < size || bounds.empty(); at += std::max<int64_t>(1, step))
      bounds.push_back({at, std::min(size, at + step)});
  };
  if (call.name == "chunk") {
    const int64_t n = std::max<int64_t>(1, value(number_at(call, 1, "chunks", 1)));
    const int64_t step = (size + n - 1) / n;
    if (step == 0) return std::vector<Interval>(static_cast<size_t>(n), Interval{0, 0});
    every(step);
  } else if (call.name == "split" || call.name == "split_with_sizes") {
    uint32_t index = 0;
    const GraphArg* arg = find_arg(call, 1, call.name == "split" ? "split_size_or_sections" : "split_sizes", &index);
    if (arg == nullptr) arg = find_arg(call, 1, "split_size", &index);
    if (arg != nullptr && arg->kind == ArgKind::Tuple) {
      int64_t at = 0;
      for (uint32_t i = index + 1; i < arg->end; i = call.graph.args[i].end) {
        const int64_t n = value(number_of(call, call.graph.args[i]));
        bounds.push_back({at, at + n});
        at += n;
      }
      if (at != size) fault = fmt::format("the sizes of the parts add up to {}, and the dim is {}", at, size);
    } else if (arg != nullptr) {
      every(value(number_of(call, *arg)));
    }
  } else if (call.name == "tensor_split") {
    const int64_t n = std::max<int64_t>(1, value(number_at(call, 1, "indices_or_sections", 1)));
    for (int64_t i = 0, at = 0; i < n; ++i) {
      const int64_t length_of = size / n + (i < size % n);
      bounds.push_back({at, at + length_of});
      at += length_of;
    }
  } else if (call.name == "unbind") {
    for (int64_t i = 0; i < size; ++i) bounds.push_back({i, i + 1});
  } else if (call.name == "narrow") {
    int64_t begin = value(number_at(call, 2, "start", 0));
    if (begin < 0) begin += size;
    const int64_t n = value(number_at(call, 3, "length", 0));
    bounds.push_back({begin, begin + n});
    if (begin + n > size) fault = fmt::format("{}..{} of a dim of {}", begin, begin + n - 1, size);
  } else {  // select
    int64_t at = value(number_at(call, 2, "index", 0));
    if (at < 0) at += size;
    bounds.push_back({at, at + 1});
    if (at < 0 || at >= size) fault = fmt::format("index {} of a dim of {}", at, size);
  }
  return bounds;
}

}  // namespace

void rule_pieces(OpCall& call, OpResult& result) {
  const auto x = tensor_at(call, 0);
  if (!x) return;
  const bool drops = call.name == "unbind" || call.name == "select";
  const bool dim_first = call.name == "unbind" || call.name == "narrow" || call.name == "select";
  const size_t dim = from_end(number_at(call, dim_first ? 1 : 2, "dim", 0).traced, x->shape.size());
  if (dim >= x->shape.size()) return;
  const size_t outs = call.node.out_end - call.node.out_begin;
  const DimMap held = call.table.maps.maps[x->layout->dims[dim]];
  std::string fault;
  const std::vector<Interval> whole = bounds_of(call, held.size, 0, true, fault);
  std::vector<std::vector<Interval>> local;
  fault.clear();
  for (size_t rank = 0; rank < call.table.maps.ranks; ++rank) {
    local.push_back(bounds_of(call, held.local[rank], rank, false, fault));
    if (!fault.empty())
      crash(result, Code::TP5102,
            fmt::format("{} of dim {}: {} on rank {} ({} in the whole model)", name_of(call), dim, fault, rank,
                        held.size));
    if (local.back().size() != whole.size())
      crash(result, Code::TP5102,
            fmt::format("{} of dim {} makes {} parts on rank {}, and {} are expected", name_of(call), dim,
                        local.back().size(), rank, whole.size()));
  }
  for (size_t part = 0; part < outs; ++part) {
    Spread out = *x->layout;
    out.is_dtensor = false;
    out.wrong = false;
    if (result.crash.empty() && part < whole.size()) {
      std::vector<LocalSlice> slices;
      std::vector<int64_t> sizes;
      for (const auto& bounds : local) {
        slices.push_back({bounds[part].begin, bounds[part].end, 1});
        sizes.push_back(length(bounds[part]));
      }
      std::string reason;
      const auto map =
          slice_map(call.table.maps, x->layout->dims[dim], slices, {whole[part].begin, whole[part].end, 1}, reason);
      if (!map)
        make_wrong(result, Code::TP5107,
                   fmt::format("part {} of {} along dim {} has other elements of a piece than of the whole: {}", part,
                               name_of(call), dim, reason));
      out.dims[dim] = map ? *map
                          : any_map(call.table.maps, length(whole[part]), std::move(sizes),
                                    call.table.maps.maps[x->layout->dims[dim]].axes);
      result.segments.push_back(
          {static_cast<uint32_t>(part), static_cast<uint32_t>(dim), whole[part].begin, whole[part].end});
    }
    if (drops) out.dims.erase(out.dims.begin() + static_cast<std::ptrdiff_t>(dim));
    give(result, std::move(out));
  }
}

}  // namespace tpplan
