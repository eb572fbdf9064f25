// scaled_dot_product_attention: softmax makes it non-linear in query and key; heads may be grouped.
#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "ops/factor_rules.h"
#include "ops/op_rules.h"

namespace tpplan {
namespace {

constexpr std::string_view kAttention = "b.. q d, b.. k d, b.. k e -> b.. q e; whole q k d e";

// Each key head serves a group of query heads, as repeat_interleave of the keys would have it (torch, enable_gqa): the
// query heads of a rank must be the groups of its key heads.
void check_groups(OpCall& call, OpResult& result, const Operand& query, const Operand& key) {
  MapTable& maps = call.table.maps;
  const int64_t group = key.shape[1] == 0 ? 1 : query.shape[1] / key.shape[1];
  const DimMap keys = maps.maps[key.layout->dims[1]], queries = maps.maps[query.layout->dims[1]];
  RankRuns served(maps.ranks);
  for (size_t rank = 0; rank < maps.ranks; ++rank) {
    if (keys.local[rank] == 0 || queries.local[rank] % keys.local[rank] != 0)
      crash(result, Code::TP5102,
            fmt::format("the ranks have {} query heads and {} key heads, and no group of query heads for each key head",
                        rank_sizes_text(queries.local), rank_sizes_text(keys.local)));
    for (const Interval& run : runs_of(keys, rank)) served[rank].push_back({run.begin * group, run.end * group});
  }
  if (keys.kind != MapKind::Any && runs_map(maps, queries.size, std::move(served)) != query.layout->dims[1])
    make_wrong(result, Code::TP5107, "query heads meet key heads of other groups");
}

void grouped_attention(OpCall& call, OpResult& result, std::span<const Operand> operands) {
  const MapTable& maps = call.table.maps;
  check_groups(call, result, operands[0], operands[1]);
  // Batch goes along; sequences and widths are whole, as without groups.
  for (size_t i = 0; i < operands.size(); ++i) {
    for (size_t dim = 2; dim < 4; ++dim) {
      if (!is_whole(maps, operands[i].layout->dims[dim])) say_pieces(call, result, dim, operands[i].layout->dims[dim]);
    }
    for (size_t dim = 0; dim < 2 && i > 0; ++dim) {
      if (dim == 0 || i == 2)
        join(call, result, operands[i - 1].layout->dims[dim], operands[i].layout->dims[dim], dim == 0,
             fmt::format("dim {}", dim));
    }
  }
  Spread out = *operands[0].layout;
  out.is_dtensor = out.wrong = out.local_view = false;
  out.dims.back() = operands[2].layout->dims.back();
  out.partial = operands[2].layout->partial;
  check_layout(call, result, out);
  give(result, std::move(out));
}

// Its parts go over all of a sequence and all of the width, with weights that are whole.
void need_whole_dims(OpCall& call, OpResult& result, const Operand& x, std::string_view what) {
  for (size_t dim = 0; dim < x.layout->dims.size(); ++dim) {
    const bool is_batch = x.shape.size() == 3 && dim == 1;
    if (is_batch || call.table.maps.maps[x.layout->dims[dim]].is_complete) continue;
    const std::string text = fmt::format("{} of {}, of which ranks hold pieces of dim {}: {}", name_of(call), what, dim,
                                         map_text(call.table.maps, x.layout->dims[dim]));
    if (dim + 1 == x.layout->dims.size())
      crash(result, Code::TP5102, text);
    else
      make_wrong(result, Code::TP5113, text);
  }
}

// What is added to, or masks, the products of queries and keys: [batch .., queries, keys], any of them 1. A bias of all
// heads meets only the query heads that the rank has.
void check_mask(OpCall& call, OpResult& result, const Operand& query, const Operand& key) {
  const auto mask = tensor_at(call, 3, "attn_mask");
  if (!mask) return;
  if (mask->layout->partial != 0) make_wrong(result, Code::TP5108, "attention with a mask that is a sum still open");
  const std::vector<MapId>&dims = mask->layout->dims, &queries = query.layout->dims, &keys = key.layout->dims;
  for (size_t behind = 0; behind < std::min(dims.size(), queries.size()); ++behind) {
    const MapId met = behind == 0 ? keys[keys.size() - 2] : queries[queries.size() - 1 - behind];
    const size_t dim = dims.size() - 1 - behind;
    join(call, result, met, dims[dim], true, fmt::format("dim {} of the mask", dim));
  }
}

}  // namespace

// torch's MultiheadAttention as one call: (query, key, value, width, heads, weights ...), the sequence before the
// batch.
void rule_multihead(OpCall& call, OpResult& result) {
  const std::vector<Operand> operands = tensors_of(call);
  if (operands.size() < 3 || call.args.size() < 3) {
    result.unknown = true;
    return;
  }
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].layout->partial != 0)
      make_wrong(result, Code::TP5108, fmt::format("{} of a sum that is still open", name_of(call)));
    if (i == 1 || i == 2) need_whole_dims(call, result, operands[i], i == 1 ? "keys" : "values");
    if (i > 2 && is_sharded(call.table, *operands[i].layout))
      crash(result, Code::TP5102, fmt::format("{} with a piece of a weight", name_of(call)));
  }
  const Spread &query = *operands[0].layout, &key = *operands[1].layout, &value = *operands[2].layout;
  if (!is_whole(call.table.maps, query.dims.back()))
    crash(result, Code::TP5102,
          fmt::format("{} of a query of which ranks hold pieces of the width: {}", name_of(call),
                      map_text(call.table.maps, query.dims.back())));
  Spread out;
  out.dims = query.dims;
  if (out.dims.size() == 3) {
    out.dims[1] = join(call, result, query.dims[1], key.dims[1], false, "the batch");
    join(call, result, key.dims[1], value.dims[1], false, "the batch");
  }
  check_layout(call, result, out);
  const size_t outs = call.node.out_end - call.node.out_begin;
  Spread weights = out;
  if (outs > 1) {
    // [batch, queries, keys], with heads behind the batch where they are not averaged.
    weights.dims = {query.dims[0], key.dims[0]};
    if (query.dims.size() == 3) weights.dims.insert(weights.dims.begin(), out.dims[1]);
    if (out_shape(call, 1).size() > weights.dims.size())
      weights.dims.insert(weights.dims.end() - 2,
                          whole_map(call.table.maps, out_shape(call, 1)[weights.dims.size() - 2]));
  }
  give(result, std::move(out));
  if (outs > 1) give(result, std::move(weights));
}

void rule_attention(OpCall& call, OpResult& result) {
  std::vector<Operand> operands;
  for (size_t i = 0; i < 3; ++i) {
    const auto x = tensor_at(call, i, i == 0 ? "query" : i == 1 ? "key" : "value");
    if (!x) return;
    operands.push_back(*x);
  }
  if (operands[0].layout->partial || operands[1].layout->partial)
    make_wrong(result, Code::TP5108, "attention of a sum that is still open");
  check_mask(call, result, operands[0], operands[1]);
  const bool grouped = bool_at(call, 100, "enable_gqa", false) && operands[0].shape.size() == 4 &&
                       operands[1].shape[1] != operands[0].shape[1];
  if (grouped) return grouped_attention(call, result, operands);
  apply_factors(call, result, kAttention, std::move(operands));
}

}  // namespace tpplan
