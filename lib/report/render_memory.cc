#include "report/render_memory.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/text.h"
#include "cost/measure_training.h"
#include "report/html_text.h"
#include "report/memory_text.h"

namespace tpplan {
namespace {

// Limits of the entries shown before a sentence that counts the rest.
constexpr size_t kMaxBars = 32, kMaxRankRows = 256, kMaxRankRanges = 6;

// The minimum width of a non-empty part of a bar in percent, so that it is visible.
constexpr double kMinPart = 0.5;

// The style names of memory_parts.
constexpr std::string_view kPartStyles[kMemoryParts] = {"cut", "whole", "grad", "master", "opt", "buf"};

std::string ranks_label(const RankMemory& memory) {
  return (memory.rank_count == 1 ? "rank " : "ranks ") + ranks_text(memory.ranks, memory.rank_count, kMaxRankRanges);
}

// Returns one bar; `scale` bytes are 100 %. Thin parts are widened to be visible, and the widest part is narrowed.
std::string bar_html(const RankMemory& memory, uint64_t ideal, double scale) {
  const auto parts = memory_parts(memory);
  std::array<double, kMemoryParts> widths{};
  double taken = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const double exact = 100 * static_cast<double>(parts[i].bytes) / scale;
    widths[i] = parts[i].bytes == 0 ? 0 : std::max(kMinPart, exact);
    taken += widths[i] - exact;
  }
  *std::max_element(widths.begin(), widths.end()) -= taken;  // keeps the total width of the bar
  std::vector<std::string> words;
  std::string rects;
  double x = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].bytes == 0) continue;
    rects += fmt::format("<rect class=\"{}\" x=\"{:.3f}%\" y=\"0\" width=\"{:.3f}%\" height=\"100%\"/>", kPartStyles[i],
                         x, std::max(0.0, widths[i]));
    words.push_back(fmt::format("{} {}", parts[i].name, human_bytes(parts[i].bytes)));
    x += widths[i];
  }
  const double tick = 100 * static_cast<double>(ideal) / scale;
  return fmt::format(
      "<svg class=\"bar\" role=\"img\" aria-label=\"{}: {}; the ideal is {}\">{}<line class=\"ideal\" x1=\"{:.3f}%\" "
      "y1=\"0\" "
      "x2=\"{:.3f}%\" y2=\"100%\"/></svg>",
      ranks_label(memory), join(words, ", "), human_bytes(ideal), rects, tick, tick);
}

std::string legend_html(const ManifestMeasure& measure) {
  std::string out = "<ul class=\"legend\">\n";
  const auto parts = memory_parts(measure.memory.fullest);
  for (size_t i = 0; i < parts.size(); ++i) {
    if (has_part(measure.memory, i))
      out += fmt::format(
          "<li><svg aria-hidden=\"true\"><rect class=\"{}\" width=\"100%\" height=\"100%\"/></svg>{}</li>\n",
          kPartStyles[i], parts[i].name);
  }
  return out + fmt::format(
                   "<li><svg aria-hidden=\"true\"><line class=\"ideal\" x1=\"50%\" y1=\"0\" x2=\"50%\" "
                   "y2=\"100%\"/></svg><span>ideal, "
                   "{}</span></li>\n</ul>\n",
                   bytes_html(measure.memory.ideal));
}

std::string bars_html(const ManifestMeasure& measure) {
  const double scale =
      std::max(1.0, 1.02 * static_cast<double>(std::max(measure.memory.fullest.total, measure.memory.ideal)));
  std::string out = "<figure>\n<ul class=\"bars\">\n";
  for (size_t i = 0; i < std::min(kMaxBars, measure.memory.ranks.size()); ++i) {
    const RankMemory& memory = measure.memory.ranks[i];
    out += fmt::format("<li><span class=\"who\">{}</span> <span class=\"sum\">{}</span> {}</li>\n", ranks_label(memory),
                       bytes_html(memory.total), bar_html(memory, measure.memory.ideal, scale));
  }
  out += "</ul>\n";
  if (measure.memory.ranks.size() > kMaxBars)
    out += fmt::format(
        "<p class=\"more\">And {} more of ranks that hold the same bytes; the table below lists them.</p>\n",
        grouped(measure.memory.ranks.size() - kMaxBars, "group"));
  return out + legend_html(measure) + "</figure>\n";
}

std::string breakdown_html(const Manifest& manifest, const ManifestMeasure& measure, const StepPicture* picture) {
  static constexpr std::string_view heads[] = {"Bytes", "#Fullest rank", "#Ideal", "#Unsharded model"};
  const ManifestTotals& t = manifest.totals;
  const RankMemory& full = measure.memory.fullest;
  // Replaces the `<tr>` at the beginning of row_html, four bytes.
  const auto row = [&](std::string_view style, const std::string& name, const std::string& held,
                       const std::string& ideal, const std::string& total) {
    return row_html(heads, std::vector<std::string>{name, held, ideal, total})
        .replace(0, 4, style.empty() ? "<tr>" : fmt::format("<tr class=\"{}\">", style));
  };
  const uint64_t sharded = full.parameters - std::min(full.parameters, full.replicated), all = t.bytes;
  std::string rows =
      row("", "Parameters", bytes_html(full.parameters), bytes_html(t.ideal_bytes_per_rank), bytes_html(all));
  rows += row("part", "sharded", bytes_html(sharded), "", bytes_html(all - std::min(all, t.replicated_bytes_per_rank)));
  rows +=
      row("part", "replicated", bytes_html(t.replicated_bytes_per_rank), "", bytes_html(t.replicated_bytes_per_rank));
  static constexpr std::pair<std::string_view, uint64_t TrainingBytes::*> parts[] = {
      {"Gradients", &TrainingBytes::gradients},
      {"Master weights", &TrainingBytes::masters},
      {"Optimizer state", &TrainingBytes::optimizer}};
  for (const auto& [name, part] : parts)
    rows += row("", std::string(name), bytes_html(full.training.*part), bytes_html(measure.memory.ideal_training.*part),
                bytes_html(measure.memory.total_training.*part));
  rows += row("", "Buffers, replicated", bytes_html(measure.memory.buffer_bytes),
              bytes_html(measure.memory.buffer_bytes), bytes_html(measure.memory.buffer_bytes));
  rows += row("sum", "Together", bytes_html(full.total), bytes_html(measure.memory.ideal), "");
  const StepCosts& costs = manifest.costs;
  const TrainingMemory step = measure_training(manifest, *measure.memory.recipe);
  if (picture != nullptr && picture->memory.peak) {
    rows += row("sum", "Peak of a step, rank 0", bytes_html(picture->memory.total), "", "");
  } else if (costs.is_there) {
    rows += row("", "Activations saved for backward, rank 0", bytes_html(costs.saved), "", "") +
            row("", "Logits in float32, rank 0", bytes_html(costs.logits), "", "") +
            row("", "Largest transient of a step, rank 0", bytes_html(costs.transient), "", "");
    if (measure.memory.recipe->gradient != ElementDtype::None && !step.overflow)
      rows += row("sum", "Total with a step, rank 0", bytes_html(step.total), "", "");
  } else
    rows +=
        "<tr><th scope=\"row\">Activations</th><td colspan=\"3\">not in the manifest: they depend on the "
        "batch</td></tr>\n";
  return table_html("Memory of the fullest rank", heads, rows);
}

std::string recipe_table() {
  static constexpr std::string_view heads[] = {"@--recipe", "#Bytes per element of bfloat16", "Assumes"};
  std::string rows;
  for (const Recipe& row : recipes()) {
    const TrainedBytes bytes = trained_bytes(row, dtype_of("bfloat16"), 1);
    const uint64_t all = bytes.gradient + bytes.master + static_cast<uint64_t>(row.states) * bytes.state;
    rows += row_html(heads, std::vector<std::string>{code(row.name), std::to_string(all), html(row.assumption)});
  }
  return table_html("Available recipes", heads, rows);
}

std::string rank_table(const ManifestMeasure& measure) {
  static constexpr std::string_view heads[] = {"Ranks",      "#Count",          "#Parameters", "#Replicated part",
                                               "#Gradients", "#Master weights", "#Optimizer",  "#Buffers",
                                               "#Together"};
  std::string rows;
  for (size_t i = 0; i < std::min(kMaxRankRows, measure.memory.ranks.size()); ++i) {
    const RankMemory& m = measure.memory.ranks[i];
    rows += row_html(
        heads, std::vector<std::string>{
                   ranks_text(m.ranks, m.rank_count, kMaxRankRanges), grouped(static_cast<uint64_t>(m.rank_count)),
                   grouped(m.parameters), grouped(m.replicated), grouped(m.training.gradients),
                   grouped(m.training.masters), grouped(m.training.optimizer), grouped(m.buffers), grouped(m.total)});
  }
  std::string out = table_html("Bytes of one rank of each group", heads, rows);
  if (measure.memory.ranks.size() > kMaxRankRows)
    out += fmt::format("<p class=\"more\">And {} more.</p>\n",
                       grouped(measure.memory.ranks.size() - kMaxRankRows, "group"));
  return out;
}

}  // namespace

std::string memory_html(const Manifest& manifest, const ManifestMeasure& measure, const StepPicture* picture) {
  std::string out = "<section id=\"memory\">\n<h2>Memory per rank</h2>\n";
  out += fmt::format("<p>Trained with the recipe {}: {}. Each state is sharded as its parameter.</p>\n",
                     code(measure.memory.recipe->name), html(measure.memory.recipe->assumption));
  if (!measure.memory.ranks_listed)
    out += "<p>The mesh has too many ranks to list each of them: this is the fullest.</p>\n";
  out += bars_html(measure) + breakdown_html(manifest, measure, picture);
  out +=
      "<details>\n<summary><span class=\"what\">Exact bytes of every rank, and the available "
      "recipes</span></summary>\n<div class=\"body\">\n" +
      rank_table(measure) + recipe_table() + "</div>\n</details>\n";
  return out + "</section>\n";
}

}  // namespace tpplan
