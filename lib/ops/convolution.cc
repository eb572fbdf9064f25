// Convolutions and transposed convolutions over one to three dims, by notation. The channels of each rank must fit its
// groups.
#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "ops/factor_rules.h"
#include "ops/op_rules.h"

namespace tpplan {
namespace {

// The channels that a filter uses: all, one (depthwise), or those of its group, which depend on its global index.
enum class Filters : uint8_t { Plain, Depthwise, Grouped };

struct FilterText {
  std::string_view channels, filter, bias, out, replicated;
};

// By [transposed][kind of filters]. The weight is [filters, channels / groups, ..], or [channels, filters / groups,
// ..].
constexpr FilterText kFilters[2][3] = {
    {{"i", "o i", "o", "o", ""}, {"c", "c 1", "c", "c", ""}, {"i", "o j", "o", "o", "i j o"}},
    {{"i", "i o", "o", "o", ""}, {"c", "c 1", "c", "c", ""}, {"i", "i j", "p", "o+", "i j p"}},
};

std::string notation_of(const FilterText& filters, size_t dims) {
  constexpr std::string_view kPositions[] = {"s", "s t", "s t u"}, kTaps[] = {"w", "w x", "w x y"},
                             kMade[] = {"s+", "s+ t+", "s+ t+ u+"};
  const std::string_view positions = kPositions[dims - 1], taps = kTaps[dims - 1];
  return fmt::format("b.. {} {}, {} {} | {} -> b.. {} {}; whole {} {} {}", filters.channels, positions, filters.filter,
                     taps, filters.bias, filters.out, kMade[dims - 1], filters.replicated, positions, taps);
}

// Checks channels, filters and groups on each rank, as torch does.
void check_groups(OpCall& call, OpResult& result, const Operand& x, const Operand& weight, const PerRankNumber& groups,
                  bool is_transposed) {
  const size_t channel_dim = x.shape.size() - (weight.shape.size() - 1);
  for (size_t rank = 0; rank < call.table.maps.ranks; ++rank) {
    const int64_t channels = local_size(call.table, *x.layout, channel_dim, rank),
                  filters = local_size(call.table, *weight.layout, 0, rank),
                  of_group = local_size(call.table, *weight.layout, 1, rank), count = groups.local[rank];
    const bool fits = count != 0 && (is_transposed ? channels == filters && channels % count == 0
                                                   : channels == count * of_group && filters % count == 0);
    if (!fits)
      crash(result, Code::OperandSizesDiffer,
            fmt::format("{} in {} groups: rank {} has {} channels and a weight of {} x {}, which do not match",
                        name_of(call), count, rank, channels, filters, of_group));
  }
}

// Reports ranks without channels or filters, which torch 2.13 rejects.
void check_filled(OpCall& call, OpResult& result, const Operand& x, const Operand& weight) {
  const size_t channel_dim = x.shape.size() - (weight.shape.size() - 1);
  for (size_t rank = 0; rank < call.table.maps.ranks; ++rank) {
    bool is_filled = local_size(call.table, *x.layout, channel_dim, rank) != 0;
    for (size_t dim = 0; dim < weight.shape.size(); ++dim)
      is_filled = is_filled && local_size(call.table, *weight.layout, dim, rank) != 0;
    if (!is_filled)
      crash(result, Code::OperandSizesDiffer,
            fmt::format("{} of an empty tensor: rank {} has no channels or no elements of the weight", name_of(call),
                        rank));
  }
}

Filters filters_of(const Operand& x, const Operand& weight, int64_t groups) {
  if (groups <= 1) return Filters::Plain;
  const int64_t channels = x.shape[x.shape.size() - (weight.shape.size() - 1)];
  return weight.shape[1] == 1 && weight.shape[0] == channels && groups == channels ? Filters::Depthwise
                                                                                   : Filters::Grouped;
}

}  // namespace

void rule_convolution(OpCall& call, OpResult& result) {
  const auto x = tensor_at(call, 0, "input");
  const auto weight = tensor_at(call, 1, "weight");
  if (!x || !weight || weight->shape.size() < 3 || weight->shape.size() > 5 ||
      x->shape.size() + 1 < weight->shape.size())
    return;
  check_filled(call, result, *x, *weight);
  const bool is_transposed = op_row(call.node.op).product == Contraction::Scatter;
  const PerRankNumber groups = number_at(call, 6, "groups", 1);
  std::vector<Operand> operands{*x, *weight};
  if (const auto bias = tensor_at(call, 2, "bias")) operands.push_back(*bias);
  if (groups.traced > 1) check_groups(call, result, *x, *weight, groups, is_transposed);
  const auto kind = static_cast<size_t>(filters_of(*x, *weight, groups.traced));
  const std::string text = notation_of(kFilters[is_transposed ? 1 : 0][kind], weight->shape.size() - 2);
  apply_factors(call, result, text, std::move(operands));
}

}  // namespace tpplan
