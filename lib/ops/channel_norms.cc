// group_norm, batch_norm, instance_norm: by notation, over groups of channels, the batch, or each channel by itself.
#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "ops/factor_rules.h"
#include "ops/op_rules.h"

namespace tpplan {
namespace {

struct ChannelNorm {
  std::string_view name;
  std::string_view whole;       // what it takes its statistics over
  std::string_view statistics;  // the argument that says whether it does; else it goes by those that it kept
  bool by_default = true;
};

constexpr ChannelNorm kNorms[] = {
    {"group_norm", "c s", ""},
    {"batch_norm", "b s", "training", false},
    {"instance_norm", "s", "use_input_stats"},
};

// torch asks for as many channels in each group, of those that the rank has.
void check_groups(OpCall& call, OpResult& result, const Operand& x) {
  const RankNumber groups = number_at(call, 1, "num_groups", 1);
  for (size_t rank = 0; rank < call.table.maps.ranks; ++rank) {
    const int64_t channels = local_size(call.table, *x.layout, 1, rank), count = groups.local[rank];
    if (count == 0 || channels % count != 0)
      crash(result, Code::TP5102,
            fmt::format("{} of {} groups, and rank {} has {} channels", name_of(call), count, rank, channels));
  }
}

// Each picture by itself: torch 2.13 takes the first of them, and the first channel.
void check_filled(OpCall& call, OpResult& result, const Operand& x) {
  for (size_t rank = 0; rank < call.table.maps.ranks; ++rank) {
    if (local_size(call.table, *x.layout, 0, rank) == 0 || local_size(call.table, *x.layout, 1, rank) == 0)
      crash(result, Code::TP5102, fmt::format("{} of nothing on rank {}", name_of(call), rank));
  }
}

}  // namespace

void rule_channel_norm(OpCall& call, OpResult& result) {
  const auto x = tensor_at(call, 0, "input");
  const auto* norm = std::find_if(std::begin(kNorms), std::end(kNorms),
                                  [&](const ChannelNorm& candidate) { return candidate.name == call.name; });
  if (!x || norm == std::end(kNorms) || x->shape.size() < 2) return;
  const bool has_groups = norm->statistics.empty();
  if (has_groups) check_groups(call, result, *x);
  if (call.name == "instance_norm") check_filled(call, result, *x);
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
  const bool counts = has_groups || bool_at(call, 5, norm->statistics, norm->by_default);
  text += fmt::format(" -> b c s..; whole {}; bends", counts ? norm->whole : "");
  apply_factors(call, result, text, std::move(operands));
}

}  // namespace tpplan
