// conv1d: by notation, whose groups must come out as many channels on every rank.
#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "ops/factor_rules.h"
#include "ops/op_rules.h"

namespace tpplan {
namespace {

constexpr std::string_view kPlain = "b i s, o i w | o -> b o s+; whole s w";
constexpr std::string_view kDepthwise = "b c s, c 1 w | c -> b c s+; whole s w";
// Which channels a filter takes follows from its place among all.
constexpr std::string_view kGrouped = "b i s, o j w | o -> b o s+; whole i j o s w";

// As torch checks them on each rank: the weight is [filters, channels / groups, width].
void check_groups(OpCall& call, OpResult& result, const Operand& x, const Operand& weight, const RankNumber& groups) {
  for (size_t rank = 0; rank < call.table.maps.ranks; ++rank) {
    const int64_t channels = local_size(call.table, *x.layout, 1, rank),
                  filters = local_size(call.table, *weight.layout, 0, rank),
                  of_group = local_size(call.table, *weight.layout, 1, rank), count = groups.local[rank];
    if (count == 0 || channels != count * of_group || filters % std::max<int64_t>(1, count) != 0)
      crash(result, Code::TP5102,
            fmt::format("conv1d in {} groups, and rank {} has {} channels and {} filters", count, rank, channels,
                        filters));
  }
}

}  // namespace

void rule_conv1d(OpCall& call, OpResult& result) {
  const auto x = tensor_at(call, 0, "input");
  const auto weight = tensor_at(call, 1, "weight");
  if (!x || !weight) return;
  const RankNumber groups = number_at(call, 6, "groups", 1);
  std::vector<Operand> operands{*x, *weight};
  if (const auto bias = tensor_at(call, 2, "bias")) operands.push_back(*bias);
  if (groups.traced > 1 && x->shape.size() == 3) check_groups(call, result, *x, *weight, groups);
  const std::string_view notation = groups.traced <= 1 ? kPlain : weight->shape[1] == 1 ? kDepthwise : kGrouped;
  apply_factors(call, result, notation, std::move(operands));
}

}  // namespace tpplan
