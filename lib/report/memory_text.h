// Text helpers that the HTML report and the memory chart share: rank ranges, percentages, truncated names.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "cost/measure_memory.h"

namespace tpplan {

// Returns a text such as "0-7, 12 and 3 more": the first `most` ranges, then the number of remaining ranks. `count` is
// the total number of ranks. `dash` joins the ends of ranges of three or more ranks.
[[nodiscard]] std::string rank_ranges_text(std::span<const RankRange> ranks, int64_t count, size_t most,
                                           std::string_view dash);

// Returns `part` in percent of `total`: "0.40 %", "less than 0.01 %", "0 %".
[[nodiscard]] std::string percent_text(uint64_t part, uint64_t total);

// Returns at most the first `most` bytes of a name, without splitting a character.
[[nodiscard]] std::string_view truncate_name(std::string_view name, size_t most);

}  // namespace tpplan
