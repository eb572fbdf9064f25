// What the page and the chart say alike of a rank's memory: its parts, in the order in which bars stack them, and ranks
// in words.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "report/measure_manifest.h"

namespace tpplan {

inline constexpr size_t kMemoryParts = 4;

struct MemoryPart {
  std::string_view name;
  uint64_t bytes = 0;
};

// Parameters that are cut, those that every rank holds whole, optimizer state, buffers. @post they sum up to `total`
std::array<MemoryPart, kMemoryParts> memory_parts(const RankMemory& memory);

// True when some rank holds bytes of this part.
bool has_part(const ManifestMeasure& measure, size_t part);

// "0-7, 12 and 3 more": the first `most` runs, of `count` ranks in all; `dash` stands in runs of three and more.
std::string rank_runs_text(std::span<const RankRun> ranks, int64_t count, size_t most, std::string_view dash);

// "0.40 %", "less than 0.01 %", "0 %".
std::string percent_text(uint64_t part, uint64_t whole);

// The first bytes of a name, `most` at most, which end where a character ends.
std::string_view cut_name(std::string_view name, size_t most);

}  // namespace tpplan
