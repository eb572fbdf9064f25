#include "ops/local_counts.h"

#include <algorithm>

#include "ops/op_rules.h"

namespace tpplan {

LiteralUse literal_use(const LocalCounts& counts, int64_t literal) {
  if (literal <= 0 || literal % counts.ranks != 0) return LiteralUse::Global;
  const auto is_multiple = [literal](int64_t divided) { return literal % divided == 0; };
  if (std::ranges::none_of(counts.divided, is_multiple)) return LiteralUse::Global;
  const bool is_undivided = std::ranges::count(counts.undivided, literal) > 0;
  return std::ranges::count(counts.divided, literal) > 0 && !is_undivided ? LiteralUse::Local : LiteralUse::Either;
}

bool has_counts(OpId op) {
  const OpRule rule = op_row(op).rule;
  return rule == rule_view || rule == rule_expand || op == OpId::Split || op == OpId::SplitWithSizes;
}

void divide_by_ranks(const OpCall& call, PerRankNumber& size) {
  for (int64_t& local : size.local) local /= call.counts->ranks;
  size.axes |= call.counts->axis;
  size.use = LiteralUse::Global;
}

std::vector<PerRankNumber> sizes_at(const OpCall& call, size_t position, std::string_view keyword) {
  std::vector<PerRankNumber> sizes = numbers_at(call, position, keyword);
  if (call.counts == nullptr) return sizes;
  uint32_t index = 0;
  const GraphArg* arg = find_arg(call, position, keyword, &index);
  for (size_t i = 0; i < sizes.size(); ++i) {
    const uint32_t at = is_number(arg) ? index : ++index;
    if (call.graph.args[at].kind != ArgKind::Int) continue;
    sizes[i].use = literal_use(*call.counts, call.graph.args[at].integer);
  }
  return sizes;
}

}  // namespace tpplan
