// scaled_dot_product_attention: nonlinear in query and key because of the softmax. Heads can be grouped.
#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "ops/factor_rules.h"
#include "ops/op_rules.h"

namespace tpplan {
namespace {

constexpr std::string_view kAttention = "b.. q d, b.. k d, b.. k e -> b.. q e; whole q k d e";

// Checks grouped heads. Each key head serves a group of query heads, as with repeat_interleave of the keys (torch,
// enable_gqa). The query heads of a rank must be the groups of its key heads.
void check_groups(OpCall& call, OpResult& result, const Operand& query, const Operand& key) {
  DimLayoutTable& maps = call.table.maps;
  const int64_t group = key.shape[1] == 0 ? 1 : query.shape[1] / key.shape[1];
  const DimLayout keys = maps.maps[key.layout->dims[1]], queries = maps.maps[query.layout->dims[1]];
  RankIntervals served(maps.ranks);
  for (size_t rank = 0; rank < maps.ranks; ++rank) {
    if (keys.local[rank] == 0 || queries.local[rank] % keys.local[rank] != 0)
      crash(result, Code::OperandSizesDiffer,
            fmt::format(
                "the ranks have {} query heads for {} key heads: each key head needs its full group of query heads",
                rank_sizes_text(queries.local), rank_sizes_text(keys.local)));
    for (const Interval& run : rank_intervals(keys, rank)) served[rank].push_back({run.begin * group, run.end * group});
  }
  if (keys.kind != DimLayoutKind::Any &&
      layout_of_intervals(maps, queries.size, std::move(served)) != query.layout->dims[1])
    mark_wrong(result, Code::ShardsMismatch, "query heads are combined with key heads of other groups");
}

void grouped_attention(OpCall& call, OpResult& result, std::span<const Operand> operands) {
  const DimLayoutTable& maps = call.table.maps;
  check_groups(call, result, operands[0], operands[1]);
  // The batch can be sharded. Sequences and head sizes must be replicated, as without groups.
  for (size_t i = 0; i < operands.size(); ++i) {
    for (size_t dim = 2; dim < 4; ++dim) {
      if (!is_fully_replicated(maps, operands[i].layout->dims[dim]))
        report_sharded_dim(call, result, dim, operands[i].layout->dims[dim]);
    }
    for (size_t dim = 0; dim < 2 && i > 0; ++dim) {
      if (dim == 0 || i == 2)
        join(call, result, operands[i - 1].layout->dims[dim], operands[i].layout->dims[dim], dim == 0,
             fmt::format("dim {}", dim));
    }
  }
  ValueLayout out = *operands[0].layout;
  out.is_dtensor = out.wrong = out.local_view = false;
  out.dims.back() = operands[2].layout->dims.back();
  out.partial = operands[2].layout->partial;
  check_layout(call, result, out);
  append_result(result, std::move(out));
}

// Reports sharded dims of keys or values. The attention covers the full sequence and the full width, with replicated
// weights.
void require_replicated_dims(OpCall& call, OpResult& result, const Operand& x, std::string_view what) {
  for (size_t dim = 0; dim < x.layout->dims.size(); ++dim) {
    const bool is_batch = x.shape.size() == 3 && dim == 1;
    if (is_batch || call.table.maps.maps[x.layout->dims[dim]].is_complete) continue;
    const std::string text = fmt::format("{} of {} with sharded dim {} uses only the local shard: {}", name_of(call),
                                         what, dim, dim_layout_text(call.table.maps, x.layout->dims[dim]));
    if (dim + 1 == x.layout->dims.size())
      crash(result, Code::OperandSizesDiffer, text);
    else
      mark_wrong(result, Code::ReductionOverShard, text);
  }
}

// Checks the mask or bias of the attention scores: [batch .., queries, keys], each possibly of size 1. A bias with a
// dim of heads must have the same heads on each rank as the query.
void check_mask(OpCall& call, OpResult& result, const Operand& query, const Operand& key) {
  const auto mask = tensor_at(call, 3, "attn_mask");
  if (!mask) return;
  if (mask->layout->partial != 0)
    mark_wrong(result, Code::PartialUsedAsFull,
               "the attention mask is a pending partial sum, but is used as the full sum");
  const std::vector<DimLayoutId>&dims = mask->layout->dims, &queries = query.layout->dims, &keys = key.layout->dims;
  for (size_t from_end = 0; from_end < std::min(dims.size(), queries.size()); ++from_end) {
    const DimLayoutId matmul_dim = from_end == 0 ? keys[keys.size() - 2] : queries[queries.size() - 1 - from_end];
    const size_t dim = dims.size() - 1 - from_end;
    join(call, result, matmul_dim, dims[dim], true, fmt::format("dim {} of the mask", dim));
  }
}

}  // namespace

// torch's MultiheadAttention as one call: (query, key, value, width, heads, weights ...), with the sequence before the
// batch.
void rule_multihead(OpCall& call, OpResult& result) {
  const std::vector<Operand> operands = tensors_of(call);
  if (operands.size() < 3 || call.args.size() < 3) {
    result.unknown = true;
    return;
  }
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].layout->partial != 0)
      mark_wrong(result, Code::PartialUsedAsFull,
                 fmt::format("{} uses a pending partial sum as the full sum", name_of(call)));
    if (i == 1 || i == 2) require_replicated_dims(call, result, operands[i], i == 1 ? "keys" : "values");
    if (i > 2 && is_sharded(call.table, *operands[i].layout))
      crash(result, Code::OperandSizesDiffer,
            fmt::format("{} expects full weights, but one is sharded", name_of(call)));
  }
  const ValueLayout &query = *operands[0].layout, &key = *operands[1].layout, &value = *operands[2].layout;
  if (!is_fully_replicated(call.table.maps, query.dims.back()))
    crash(result, Code::OperandSizesDiffer,
          fmt::format("{} expects the full width of the query, but it is sharded: {}", name_of(call),
                      dim_layout_text(call.table.maps, query.dims.back())));
  ValueLayout out;
  out.dims = query.dims;
  if (out.dims.size() == 3) {
    out.dims[1] = join(call, result, query.dims[1], key.dims[1], false, "the batch");
    join(call, result, key.dims[1], value.dims[1], false, "the batch");
  }
  check_layout(call, result, out);
  const size_t outs = call.node.out_end - call.node.out_begin;
  ValueLayout weights = out;
  if (outs > 1) {
    // [batch, queries, keys]; with heads after the batch if they are not averaged.
    weights.dims = {query.dims[0], key.dims[0]};
    if (query.dims.size() == 3) weights.dims.insert(weights.dims.begin(), out.dims[1]);
    if (out_shape(call, 1).size() > weights.dims.size())
      weights.dims.insert(weights.dims.end() - 2,
                          replicated_dim(call.table.maps, out_shape(call, 1)[weights.dims.size() - 2]));
  }
  append_result(result, std::move(out));
  if (outs > 1) append_result(result, std::move(weights));
}

void rule_attention(OpCall& call, OpResult& result) {
  std::vector<Operand> operands;
  for (size_t i = 0; i < 3; ++i) {
    const auto x = tensor_at(call, i, i == 0 ? "query" : i == 1 ? "key" : "value");
    if (!x) return;
    operands.push_back(*x);
  }
  if (operands[0].layout->partial || operands[1].layout->partial)
    mark_wrong(result, Code::PartialUsedAsFull, "attention uses a pending partial sum as the full sum");
  check_mask(call, result, operands[0], operands[1]);
  const bool grouped = bool_at(call, 100, "enable_gqa", false) && operands[0].shape.size() == 4 &&
                       operands[1].shape[1] != operands[0].shape[1];
  if (grouped) return grouped_attention(call, result, operands);
  apply_factors(call, result, kAttention, std::move(operands));
}

}  // namespace tpplan
