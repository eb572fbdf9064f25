#include "report/memory_text.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

namespace tpplan {

std::string rank_ranges_text(std::span<const RankRange> ranks, int64_t count, size_t most, std::string_view dash) {
  std::string text;
  int64_t shown = 0;
  for (const RankRange& run : ranks.first(std::min(most, ranks.size()))) {
    const int64_t length = run.end - run.begin;
    if (!text.empty()) text += ", ";
    text += std::to_string(run.begin);
    if (length > 1) text += fmt::format("{}{}", length == 2 ? ", " : dash, run.end - 1);
    shown += length;
  }
  return shown == count ? text : fmt::format("{} and {} more", text, count - shown);
}

std::string percent_text(uint64_t part, uint64_t total) {
  if (part == 0 || total == 0) return "0 %";
  const double share = 100 * (static_cast<double>(part) / static_cast<double>(total));
  return share < 0.01 ? "less than 0.01 %" : fmt::format("{:.{}f} %", share, share < 10 ? 2 : 1);
}

// Bytes 10xxxxxx continue a UTF-8 character, so the end moves to the beginning of the character.
std::string_view truncate_name(std::string_view name, size_t most) {
  if (name.size() <= most) return name;
  while (most > 0 && (static_cast<unsigned char>(name[most]) & 0xc0u) == 0x80u) --most;
  return name.substr(0, most);
}

}  // namespace tpplan
