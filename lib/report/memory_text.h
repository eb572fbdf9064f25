// What the page and the chart say alike of memory in words: ranks, shares, names.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "measure/measure_memory.h"

namespace tpplan {

// "0-7, 12 and 3 more": the first `most` runs, of `count` ranks in all; `dash` stands in runs of three and more.
[[nodiscard]] std::string rank_runs_text(std::span<const RankRun> ranks, int64_t count, size_t most,
                                         std::string_view dash);

// "0.40 %", "less than 0.01 %", "0 %".
[[nodiscard]] std::string percent_text(uint64_t part, uint64_t whole);

// The first bytes of a name, `most` at most, which end where a character ends.
[[nodiscard]] std::string_view cut_name(std::string_view name, size_t most);

}  // namespace tpplan
