// pixel_shuffle and its like: dims that are split into factors, which are put together again in another order.
#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "ops/merge_maps.h"
#include "ops/op_rules.h"
#include "ops/regroup_maps.h"

namespace tpplan {
namespace {

// Dims as words, each of its factors (at::native::pixel_shuffle, pixel_unshuffle and math_channel_shuffle, torch
// 2.13). Factors in capitals have the size that the call names; another one beside them is what they leave.
struct RearrangeRow {
  std::string_view name;
  int first;  // dim that the words begin with, from the end where negative
  std::string_view from, to;
  bool keeps_nothing = false;  // of a tensor without elements it returns that
};

constexpr RearrangeRow kRearrangeRows[] = {
    {"pixel_shuffle", -3, "cRS h w", "c hR wS"},
    {"pixel_unshuffle", -3, "c hR wS", "cRS h w", true},
    {"channel_shuffle", 1, "Gc", "cG"},
};

bool is_named(char factor) { return factor >= 'A' && factor <= 'Z'; }

struct Factor {
  char name = 0;
  MapId map = 0;
};

// The factors of a dim. Of what ranks hold otherwise than in whole factors only the sizes count.
void split_dim(OpCall& call, OpResult& result, std::string_view word, MapId map, const RankNumber& named,
               std::vector<Factor>& factors) {
  MapTable& maps = call.table.maps;
  if (word.size() == 1) return factors.push_back({word[0], map});
  const DimMap held = maps.maps[map];
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
    crash(result, Code::TP5102,
          fmt::format("{} splits {} elements by {}, and rank {} holds {}", name_of(call), held.size, named.local[rank],
                      rank, held.local[rank]));
    is_right = false;
  }
  std::string fault = "the pieces are no pieces of its factors";
  const MapId from[] = {map};
  const auto split = is_right ? regroup_maps(maps, from, sizes, local, fault) : std::nullopt;
  if (!split)
    make_wrong(result, Code::TP5103, fmt::format("{} goes through the pieces of a dim: {}", name_of(call), fault));
  for (size_t i = 0; i < word.size(); ++i)
    factors.push_back({word[i], split ? (*split)[i] : any_map(maps, sizes[i], local[i], held.axes)});
}

}  // namespace

void rule_rearrange(OpCall& call, OpResult& result) {
  const auto* row = std::find_if(std::begin(kRearrangeRows), std::end(kRearrangeRows),
                                 [&](const RearrangeRow& candidate) { return candidate.name == call.name; });
  const auto x = tensor_at(call, 0, "input");
  const GraphArg* number = nullptr;
  for (const std::string_view keyword : {"upscale_factor", "downscale_factor", "groups"}) {
    if (number == nullptr) number = find_arg(call, 1, keyword);
  }
  std::vector<std::string_view> from, to;
  add_words(row->from, from);
  add_words(row->to, to);
  if (!x || !is_number(number) || x->layout->dims.size() < std::max<size_t>(2, from.size())) return;
  const RankNumber named = number_of(call, *number);
  Spread out = *x->layout;
  out.is_dtensor = out.wrong = out.local_view = false;
  for (const MapId map : out.dims) {
    const std::vector<int64_t>& local = call.table.maps.maps[map].local;
    if (row->keeps_nothing && std::find(local.begin(), local.end(), 0) != local.end())
      make_wrong(result, Code::TP5103,
                 fmt::format("{} of nothing leaves the dims as they are: {}", name_of(call), rank_sizes_text(local)));
  }
  const size_t first = from_end(row->first, out.dims.size());
  std::vector<Factor> factors;
  for (size_t i = 0; i < from.size(); ++i) split_dim(call, result, from[i], out.dims[first + i], named, factors);
  for (size_t i = 0; i < to.size(); ++i) {
    std::vector<MapId> parts;
    for (const char name : to[i])
      parts.push_back(std::find_if(factors.begin(), factors.end(), [name](const Factor& factor) {
                        return factor.name == name;
                      })->map);
    out.dims[first + i] = merge_maps(call, result, parts);
  }
  check_layout(call, result, out);
  give(result, std::move(out));
}

}  // namespace tpplan
