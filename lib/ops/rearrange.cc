// pixel_shuffle and similar operations: split dims into factors and merge these in another order.
#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/text.h"
#include "ops/merge_layouts.h"
#include "ops/op_rules.h"
#include "ops/regroup_layouts.h"

namespace tpplan {
namespace {

// Dims as words of factors (at::native::pixel_shuffle, pixel_unshuffle and math_channel_shuffle, torch 2.13). A capital
// factor has the size that the call specifies; the other one of the word has the rest.
struct RearrangeRow {
  int first = 0;  // dim of the first word; negative: from the end
  std::string_view from, to;
  bool removes_all = false;  // returns a tensor without elements unchanged
};

constexpr auto kRearrangeRows = by_op<RearrangeRow>({
    {OpId::PixelShuffle, {-3, "cRS h w", "c hR wS"}},
    {OpId::PixelUnshuffle, {-3, "c hR wS", "cRS h w", true}},
    {OpId::ChannelShuffle, {1, "Gc", "cG"}},
});

bool is_named(char factor) { return factor >= 'A' && factor <= 'Z'; }

struct PatternFactor {
  char name = 0;
  DimLayoutId map = 0;
};

// Splits a dim into its factors. If a shard splits a factor, only its size is tracked.
void split_dim(OpCall& call, OpResult& result, std::string_view word, DimLayoutId map, const PerRankNumber& named,
               std::vector<PatternFactor>& factors) {
  DimLayoutTable& maps = call.table.maps;
  if (word.size() == 1) return factors.push_back({word[0], map});
  const DimLayout held = maps.maps[map];
  const auto rest_of = [&](int64_t size, int64_t by) {
    for (const char factor : word) size = is_named(factor) && by != 0 ? size / by : size;
    return size;
  };
  const auto fits = [&](int64_t size, int64_t by) {
    int64_t all = rest_of(size, by);
    for (const char factor : word) all *= is_named(factor) ? by : 1;
    return all == size;
  };
  std::vector<int64_t> sizes;
  std::vector<std::vector<int64_t>> local;
  for (const char factor : word) {
    sizes.push_back(is_named(factor) ? named.traced : rest_of(held.size, named.traced));
    local.push_back(named.local);
    for (size_t rank = 0; rank < maps.ranks && !is_named(factor); ++rank)
      local.back()[rank] = rest_of(held.local[rank], named.local[rank]);
  }
  bool is_right = fits(held.size, named.traced);
  for (size_t rank = 0; rank < maps.ranks; ++rank) {
    if (fits(held.local[rank], named.local[rank])) continue;
    crash(result, Code::OperandSizesDiffer,
          fmt::format("{} splits {} elements by {}, but rank {} holds {}", name_of(call), held.size, named.local[rank],
                      rank, held.local[rank]));
    is_right = false;
  }
  std::string fault = "the shards do not map to shards of its factors";
  const DimLayoutId from[] = {map};
  const auto split = is_right ? regroup_layouts(maps, from, sizes, local, fault) : std::nullopt;
  if (!split)
    mark_wrong(result, Code::GlobalSizeInView,
               fmt::format("{} crosses shard boundaries of a dim: {}", name_of(call), fault));
  for (size_t i = 0; i < word.size(); ++i)
    factors.push_back({word[i], split ? (*split)[i] : unknown_dim(maps, sizes[i], local[i], held.axes)});
}

}  // namespace

void rule_rearrange(OpCall& call, OpResult& result) {
  const RearrangeRow& row = kRearrangeRows[index_of(call.node.op)];
  const auto x = tensor_at(call, 0, "input");
  const GraphArg* number = nullptr;
  for (const std::string_view keyword : {"upscale_factor", "downscale_factor", "groups"}) {
    if (number == nullptr) number = find_arg(call, 1, keyword);
  }
  const std::vector<std::string_view> from = split(row.from, ' '), to = split(row.to, ' ');
  if (!x || !is_number(number) || x->layout->dims.size() < std::max<size_t>(2, from.size())) return;
  const PerRankNumber named = number_of(call, *number);
  ValueLayout out = *x->layout;
  out.is_dtensor = out.wrong = out.local_view = false;
  for (const DimLayoutId map : out.dims) {
    const std::vector<int64_t>& local = call.table.maps.maps[map].local;
    if (row.removes_all && std::find(local.begin(), local.end(), 0) != local.end())
      mark_wrong(
          result, Code::GlobalSizeInView,
          fmt::format("{} of an empty tensor does not change its shape: {}", name_of(call), rank_sizes_text(local)));
  }
  const size_t first = dim_index(row.first, out.dims.size());
  std::vector<PatternFactor> factors;
  for (size_t i = 0; i < from.size(); ++i) split_dim(call, result, from[i], out.dims[first + i], named, factors);
  for (size_t i = 0; i < to.size(); ++i) {
    std::vector<DimLayoutId> parts;
    for (const char name : to[i])
      parts.push_back(std::find_if(factors.begin(), factors.end(), [name](const PatternFactor& factor) {
                        return factor.name == name;
                      })->map);
    out.dims[first + i] = merge_layouts(call, result, parts);
  }
  check_layout(call, result, out);
  append_result(result, std::move(out));
}

}  // namespace tpplan
