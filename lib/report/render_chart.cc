#include "report/render_chart.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <vector>

#include "base/text.h"
#include "report/memory_text.h"

namespace tpplan {
namespace {

// Limits: groups of ranks with a bar, and rank ranges in a label.
constexpr size_t kMaxChartBars = 24, kMaxChartIntervals = 4;

// The maximum number of bytes shown of a name.
constexpr size_t kMaxName = 200;

struct Marks {
  std::string_view parts[kMemoryParts];
  std::string_view ideal;
};
// Marks distinguish the parts without colors, so that the chart is readable in a log.
constexpr Marks kBlocks = {{"█", "▓", "▒", "▚", "░", "·"}, "▲"};
constexpr Marks kAscii = {{"#", "!", "=", "%", "+", "."}, "^"};
constexpr std::string_view kPartColors[] = {kBlue, kRed, kGreen, kMagenta, kYellow, kCyan};
static_assert(std::size(kPartColors) == kMemoryParts);

std::string shown_name(std::string_view name) {
  const std::string_view shown = truncate_name(name, kMaxName);
  return escape_for_terminal(shown) +
         (shown.size() == name.size() ? "" : fmt::format("... ({} more)", counted(name.size() - shown.size(), "byte")));
}

std::string repeated(std::string_view mark, size_t times) {
  std::string out;
  for (size_t i = 0; i < times; ++i) out += mark;
  return out;
}

// Returns the phrases wrapped to lines, with two spaces between phrases. A phrase longer than a line is broken at
// spaces.
std::string wrapped(const std::vector<std::string>& phrases, size_t width, std::string_view indent) {
  std::string out, line(indent);
  for (std::string_view phrase : phrases) {
    if (line.size() > indent.size() && count_code_points(line) + 2 + count_code_points(phrase) <= width) {
      line += fmt::format("  {}", phrase);
      continue;
    }
    if (line.size() > indent.size()) out += line + "\n";
    while (indent.size() + count_code_points(phrase) > width) {
      const size_t blank = phrase.rfind(' ', width - indent.size());
      if (blank == std::string_view::npos) break;
      out += fmt::format("{}{}\n", indent, phrase.substr(0, blank));
      phrase.remove_prefix(blank + 1);
    }
    line = fmt::format("{}{}", indent, phrase);
  }
  return out + line + "\n";
}

// Computes in 128 bits, because bytes times columns can overflow 64 bits.
size_t column_of(uint64_t bytes, uint64_t scale, size_t width) {
  return scale == 0 ? 0 : static_cast<size_t>(static_cast<unsigned __int128>(bytes) * width / scale);
}

// Draws a bar. The end of each part is rounded down, but a non-empty part has at least one column. The bounds of clamp
// never cross: kMinChartWidth exceeds the number of parts, and each part reserves one column for each later part.
std::string bar_text(const RankMemory& memory, uint64_t scale, size_t width, const Marks& marks, bool color) {
  std::string out;
  size_t drawn = 0, remaining_parts = 0;
  uint64_t sum = 0;
  const auto parts = memory_parts(memory);
  for (const MemoryPart& part : parts) remaining_parts += part.bytes > 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].bytes == 0) continue;
    --remaining_parts;
    sum += parts[i].bytes;
    const size_t end = std::clamp(column_of(sum, scale, width), drawn + 1, width - remaining_parts);
    out += paint(repeated(marks.parts[i], end - drawn), kPartColors[i], color);
    drawn = end;
  }
  return out;
}

// Returns the legend with colored marks. The names in it contain no marks.
std::string painted_marks(std::string_view legend, const Marks& marks, bool color) {
  std::string out;
  while (!legend.empty()) {
    const auto at = std::ranges::find_if(marks.parts, [legend](std::string_view m) { return legend.starts_with(m); });
    const size_t length = at == std::end(marks.parts) ? 1 : at->size();
    const size_t part = static_cast<size_t>(at - std::begin(marks.parts));
    out += at == std::end(marks.parts) ? std::string(legend.substr(0, 1)) : paint(*at, kPartColors[part], color);
    legend.remove_prefix(length);
  }
  return out;
}

std::string ideal_line(const ManifestMeasure& measure, uint64_t scale, size_t width, const Marks& marks) {
  const size_t column = std::min(column_of(measure.memory.ideal, scale, width), width - 1);
  const std::string label = fmt::format("ideal {}", human_bytes(measure.memory.ideal));
  if (column + 2 + label.size() <= width) return fmt::format("{}{} {}\n", std::string(column, ' '), marks.ideal, label);
  const size_t blanks = column > label.size() + 1 ? column - label.size() - 1 : 0;
  return fmt::format("{}{} {}\n", std::string(blanks, ' '), label, marks.ideal);
}

}  // namespace

std::string render_chart(const Manifest& manifest, const ManifestMeasure& measure, const ChartOptions& options) {
  const Marks& marks = options.ascii ? kAscii : kBlocks;
  const size_t width = std::max(options.width, kMinChartWidth);
  const ManifestTotals& t = manifest.totals;
  const uint64_t scale = std::max(measure.memory.fullest.total, measure.memory.ideal);
  std::string out = fmt::format("{} on {}\n", shown_name(manifest.model_name), shown_name(to_text(manifest.mesh)));
  out += wrapped({fmt::format("parameters {}", human_bytes(t.bytes)),
                  fmt::format("replicated {} of it", percent_text(t.replicated_bytes_per_rank, t.bytes)),
                  fmt::format("recipe {}", measure.memory.recipe->name)},
                 width, "");
  if (!measure.memory.ranks_listed) out += wrapped({"too many ranks to list: only the fullest is shown"}, width, "");
  out += "\n";
  for (size_t i = 0; i < std::min(kMaxChartBars, measure.memory.ranks.size()); ++i) {
    const RankMemory& memory = measure.memory.ranks[i];
    std::vector<std::string> words;
    for (const MemoryPart& part : memory_parts(memory)) {
      if (part.bytes > 0) words.push_back(fmt::format("{} {}", part.name, human_bytes(part.bytes)));
    }
    out += wrapped({fmt::format("{} {}", memory.rank_count == 1 ? "rank" : "ranks",
                                rank_ranges_text(memory.ranks, memory.rank_count, kMaxChartIntervals, "-")),
                    human_bytes(memory.total)},
                   width, "");
    out += bar_text(memory, scale, width, marks, options.color) + "\n" + wrapped(words, width, "  ");
  }
  if (measure.memory.ranks.size() > kMaxChartBars)
    out += wrapped({fmt::format("and {} more of ranks that hold the same bytes",
                                counted(measure.memory.ranks.size() - kMaxChartBars, "group"))},
                   width, "");
  out += ideal_line(measure, scale, width, marks) + "\n";
  std::vector<std::string> legend;
  const auto names = memory_parts(measure.memory.fullest);
  for (size_t i = 0; i < names.size(); ++i) {
    if (has_part(measure.memory, i)) legend.push_back(fmt::format("{} {}", marks.parts[i], names[i].name));
  }
  return out + painted_marks(wrapped(legend, width, ""), marks, options.color) +
         wrapped({"not counted: activations"}, width, "");
}

}  // namespace tpplan
