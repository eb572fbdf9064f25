// group_norm, batch_norm and instance_norm by notation: over groups of channels, over the batch, or over each channel.
#include <spdlog/fmt/fmt.h>

#include "ops/factor_rules.h"
#include "ops/op_rules.h"

namespace tpplan {
namespace {

struct ChannelNorm {
  std::string_view reduced;     // factors over which statistics are computed
  std::string_view statistics;  // the argument that enables statistics; otherwise the running ones are used
  bool by_default = true;
};

constexpr auto kNorms = by_op<ChannelNorm>({
    {OpId::GroupNorm, {"c s", ""}},
    {OpId::BatchNorm, {"b s", "training", false}},
    {OpId::InstanceNorm, {"s", "use_input_stats"}},
});

// Checks that the local channels of each rank divide by the number of groups, as torch requires.
void check_groups(OpCall& call, OpResult& result, const Operand& x) {
  const PerRankNumber groups = number_at(call, 1, "num_groups", 1);
  for (size_t rank = 0; rank < call.table.maps.ranks; ++rank) {
    const int64_t channels = local_size(call.table, *x.layout, 1, rank), count = groups.local[rank];
    if (count == 0 || channels % count != 0)
      crash(result, Code::OperandSizesDiffer,
            fmt::format("{} with {} groups: rank {} has {} channels, which is not a multiple", name_of(call), count,
                        rank, channels));
  }
}

// Reports ranks without elements of the batch or without channels. instance_norm of torch 2.13 reads the first of both.
void check_filled(OpCall& call, OpResult& result, const Operand& x) {
  for (size_t rank = 0; rank < call.table.maps.ranks; ++rank) {
    if (local_size(call.table, *x.layout, 0, rank) == 0 || local_size(call.table, *x.layout, 1, rank) == 0)
      crash(result, Code::OperandSizesDiffer, fmt::format("{} of an empty tensor on rank {}", name_of(call), rank));
  }
}

}  // namespace

void rule_channel_norm(OpCall& call, OpResult& result) {
  const auto x = tensor_at(call, 0, "input");
  const ChannelNorm& norm = kNorms[index_of(call.node.op)];
  if (!x || x->shape.size() < 2) return;
  const bool has_groups = norm.statistics.empty();
  if (has_groups) check_groups(call, result, *x);
  if (call.node.op == OpId::InstanceNorm) check_filled(call, result, *x);
  std::vector<Operand> operands{*x};
  std::string text = "b c s..";
  const auto add = [&](size_t position, std::string_view keyword, std::string_view factor) {
    if (const auto tensor = tensor_at(call, position, keyword)) {
      operands.push_back(*tensor);
      text += factor;
    }
  };
  if (!has_groups) {
    add(1, "running_mean", ", c");
    add(2, "running_var", ", c");
  }
  add(has_groups ? 2 : 3, "weight", ", c");
  add(has_groups ? 3 : 4, "bias", " | c");
  const bool counts = has_groups || bool_at(call, 5, norm.statistics, norm.by_default);
  text += fmt::format(" -> b c s..; whole {}; bends", counts ? norm.reduced : "");
  apply_factors(call, result, text, std::move(operands));
}

}  // namespace tpplan
