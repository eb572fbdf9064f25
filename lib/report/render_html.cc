#include "report/render_html.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>

#include "base/text.h"
#include "manifest/coverage_gate.h"
#include "report/group_params.h"
#include "report/html_text.h"
#include "report/memory_text.h"
#include "report/render_changes.h"
#include "report/render_shards.h"

namespace tpplan {
namespace {

// What is shown before a sentence says how much more there is.
constexpr size_t kMaxBars = 32, kMaxRankRows = 256, kMaxRankRuns = 6, kMaxReplicated = 15, kMaxRules = 400,
                 kMaxReasons = 20, kMaxPatterns = 40;

// A part of a bar that is there is drawn this many percent wide at least, so that it is seen.
constexpr double kMinPart = 0.5;

uint64_t rank_count(const Manifest& manifest) { return static_cast<uint64_t>(device_count(manifest.mesh)); }

// ---- head ----

std::string mesh_html(const Mesh& mesh) {
  std::vector<std::string> axes;
  for (const MeshAxis& axis : mesh.axes) axes.push_back(fmt::format("<bdi>{}</bdi> {}", html(axis.name), axis.size));
  return axes.empty() ? "no mesh axes" : join(axes, " × ");
}

std::string head_html(const Manifest& manifest) {
  std::string out = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
  out += fmt::format(
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src &#39;none&#39;; style-src {}; base-uri "
      "&#39;none&#39;; "
      "form-action &#39;none&#39;\">\n",
      html(style_source()));
  out +=
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" "
      "content=\"light dark\">\n";
  out += fmt::format(
      "<meta name=\"generator\" content=\"{}\">\n<title>{}: sharding "
      "report</title>\n<style>{}</style>\n</head>\n<body>\n",
      kToolVersion, html(manifest.model_name), style_sheet());
  out +=
      "<svg class=\"hidden\" aria-hidden=\"true\"><defs><pattern id=\"hatch\" width=\"6\" height=\"6\" "
      "patternUnits=\"userSpaceOnUse\" "
      "patternTransform=\"rotate(45)\">"
      "<rect class=\"hatch-a\" width=\"6\" height=\"6\"/><line class=\"hatch-b\" x1=\"1\" y1=\"0\" x2=\"1\" "
      "y2=\"6\"/></pattern></defs></svg>\n";
  out += fmt::format("<header>\n<p class=\"eyebrow\">Sharding report</p>\n<h1>{}</h1>\n", html(manifest.model_name));
  out += fmt::format("<p class=\"lead\">{}, {}, {} on {}: {}</p>\n", bytes_html(manifest.totals.bytes),
                     grouped(manifest.parameters.size(), "parameter"), grouped(manifest.totals.elements, "element"),
                     grouped(rank_count(manifest), "rank"), mesh_html(manifest.mesh));
  return out;
}

std::string tile(std::string_view term, const std::string& big, const std::string& sub, bool warn = false) {
  return fmt::format("<div><dt>{}</dt><dd class=\"big{}\">{}</dd><dd class=\"sub\">{}</dd></div>\n", term,
                     warn ? " warn" : "", big, sub);
}

std::string above_ideal(uint64_t held, uint64_t ideal) {
  if (held <= ideal) return "0 %";
  return ideal / 10000 > held - ideal ? "&lt; 0.01 %" : percent_text(held - ideal, ideal);
}

// How much each rank holds, how far that is from the ideal, and what stayed replicated.
std::string tiles_html(const Manifest& manifest, const ManifestMeasure& measure) {
  const ManifestTotals& t = manifest.totals;
  uint64_t whole = 0;
  for (const ManifestParam& param : manifest.parameters)
    whole += is_replicated(layout_of(manifest, param).sharding.spec);
  const bool one_rank = rank_count(manifest) == 1;
  std::string out = "<dl class=\"tiles\">\n";
  out += tile(
      measure.memory.ranks.size() == 1 && measure.memory.ranks_listed ? "Each rank holds" : "The fullest rank holds",
      bytes_html(t.max_bytes_per_rank), "of parameters");
  out += tile("Above the ideal", above_ideal(t.max_bytes_per_rank, t.ideal_bytes_per_rank),
              fmt::format("the ideal is {}, the model over {}", bytes_html(t.ideal_bytes_per_rank),
                          grouped(rank_count(manifest), "rank")),
              t.max_bytes_per_rank > t.ideal_bytes_per_rank + t.ideal_bytes_per_rank / 20);
  out += tile("Whole on every rank", bytes_html(t.replicated_bytes_per_rank),
              fmt::format("{} of the model, {} of {}", percent_text(t.replicated_bytes_per_rank, t.bytes),
                          grouped(whole), grouped(manifest.parameters.size(), "parameter")),
              !one_rank && t.replicated_bytes_per_rank > t.bytes / 20);
  const Optimizer& optimizer = *measure.memory.optimizer;
  out += tile(optimizer.bytes_per_element == 0 ? "Without an optimizer" : "With the optimizer",
              bytes_html(measure.memory.fullest.total),
              optimizer.bytes_per_element == 0
                  ? "nothing but parameters and buffers"
                  : fmt::format("{}, {} for each element, on the fullest rank", optimizer.name,
                                counted(optimizer.bytes_per_element, "byte")));
  return out + "</dl>\n";
}

// ---- memory ----

// The parts of memory_parts in the style sheet.
constexpr std::string_view kPartStyles[kMemoryParts] = {"cut", "whole", "opt", "buf"};

std::string ranks_label(const RankMemory& memory) {
  return (memory.rank_count == 1 ? "rank " : "ranks ") + ranks_text(memory.ranks, memory.rank_count, kMaxRankRuns);
}

// One bar; 100 % is `scale` bytes.
std::string bar_html(const RankMemory& memory, uint64_t ideal, double scale) {
  const auto parts = memory_parts(memory);
  std::array<double, kMemoryParts> widths{};
  double taken = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const double exact = 100 * static_cast<double>(parts[i].bytes) / scale;
    widths[i] = parts[i].bytes == 0 ? 0 : std::max(kMinPart, exact);
    taken += widths[i] - exact;
  }
  *std::max_element(widths.begin(), widths.end()) -= taken;  // so that the bar ends where it should
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
    out +=
        fmt::format("<p class=\"more\">And {} more of ranks that hold the same bytes; the table below has them.</p>\n",
                    grouped(measure.memory.ranks.size() - kMaxBars, "group"));
  return out + legend_html(measure) + "</figure>\n";
}

std::string breakdown_html(const Manifest& manifest, const ManifestMeasure& measure) {
  static constexpr std::string_view heads[] = {"Bytes", "#Fullest rank", "#Ideal", "#Whole model"};
  const ManifestTotals& t = manifest.totals;
  const RankMemory& full = measure.memory.fullest;
  const auto row = [&](std::string_view style, const std::string& name, const std::string& held,
                       const std::string& ideal, const std::string& whole) {
    return row_html(heads, std::vector<std::string>{name, held, ideal, whole})
        .replace(0, 4, style.empty() ? "<tr>" : fmt::format("<tr class=\"{}\">", style));
  };
  const uint64_t cut = full.parameters - std::min(full.parameters, full.replicated), all = t.bytes;
  std::string rows =
      row("", "Parameters", bytes_html(full.parameters), bytes_html(t.ideal_bytes_per_rank), bytes_html(all));
  rows += row("part", "cut", bytes_html(cut), "", bytes_html(all - std::min(all, t.replicated_bytes_per_rank)));
  rows += row("part", "whole on every rank", bytes_html(t.replicated_bytes_per_rank), "",
              bytes_html(t.replicated_bytes_per_rank));
  rows += row("", fmt::format("Optimizer state, {}", measure.memory.optimizer->name), bytes_html(full.optimizer),
              bytes_html(measure.memory.ideal_optimizer), bytes_html(measure.memory.optimizer_bytes));
  rows += row("", "Buffers, whole on every rank", bytes_html(measure.memory.buffer_bytes),
              bytes_html(measure.memory.buffer_bytes), bytes_html(measure.memory.buffer_bytes));
  rows += row("sum", "Together", bytes_html(full.total), bytes_html(measure.memory.ideal), "");
  rows +=
      "<tr><th scope=\"row\">Activations</th><td colspan=\"3\">not in the manifest: they depend on the "
      "batch</td></tr>\n";
  rows +=
      "<tr><th scope=\"row\">Gradients</th><td colspan=\"3\">not counted: as much as the parameters where all are kept "
      "at once</td></tr>\n";
  return table_html("What the fullest rank holds", heads, rows);
}

std::string optimizer_table() {
  static constexpr std::string_view heads[] = {"--optimizer", "#Bytes an element", "Assumes"};
  std::string rows;
  for (const Optimizer& row : optimizers())
    rows += row_html(
        heads, std::vector<std::string>{code(row.name), std::to_string(row.bytes_per_element), html(row.assumption)});
  return table_html("Optimizers to choose from", heads, rows);
}

std::string rank_table(const ManifestMeasure& measure) {
  static constexpr std::string_view heads[] = {"Ranks",      "#How many", "#Parameters", "#Of these whole",
                                               "#Optimizer", "#Buffers",  "#Together"};
  std::string rows;
  for (size_t i = 0; i < std::min(kMaxRankRows, measure.memory.ranks.size()); ++i) {
    const RankMemory& m = measure.memory.ranks[i];
    rows += row_html(heads, std::vector<std::string>{ranks_text(m.ranks, m.rank_count, kMaxRankRuns),
                                                     grouped(static_cast<uint64_t>(m.rank_count)),
                                                     grouped(m.parameters), grouped(m.replicated), grouped(m.optimizer),
                                                     grouped(m.buffers), grouped(m.total)});
  }
  std::string out = table_html("Bytes of one rank of each group", heads, rows);
  if (measure.memory.ranks.size() > kMaxRankRows)
    out += fmt::format("<p class=\"more\">And {} more.</p>\n",
                       grouped(measure.memory.ranks.size() - kMaxRankRows, "group"));
  return out;
}

std::string memory_html(const Manifest& manifest, const ManifestMeasure& measure) {
  std::string out = "<section id=\"memory\">\n<h2>Memory per rank</h2>\n";
  out += fmt::format("<p>Assumed for the optimizer: {}, cut as its parameter is.</p>\n",
                     html(measure.memory.optimizer->assumption));
  if (!measure.memory.ranks_listed)
    out += "<p>The mesh has too many ranks to list them one by one: this is the fullest.</p>\n";
  out += bars_html(measure) + breakdown_html(manifest, measure);
  out +=
      "<details>\n<summary><span class=\"what\">Exact bytes of every rank, and the optimizers to choose "
      "from</span></summary>\n<div "
      "class=\"body\">\n" +
      rank_table(measure) + optimizer_table() + "</div>\n</details>\n";
  return out + "</section>\n";
}

std::string replicated_html(const Manifest& manifest) {
  static constexpr std::string_view heads[] = {"Parameters", "#Names", "#On every rank", "#Of the model"};
  const ManifestTotals& t = manifest.totals;
  std::string out = "<section id=\"replicated\">\n<h2>What stayed replicated</h2>\n";
  const std::vector<ReplicatedGroup> groups = largest_replicated(manifest, SIZE_MAX);
  if (groups.empty()) return out + "<p>Nothing: every parameter is cut over at least one axis.</p>\n</section>\n";
  std::string rows;
  uint64_t rest = 0;
  for (size_t i = 0; i < groups.size(); ++i) {
    if (i >= kMaxReplicated)
      rest += groups[i].count;
    else
      rows += row_html(heads,
                       std::vector<std::string>{code(groups[i].pattern), grouped(groups[i].count),
                                                bytes_html(groups[i].bytes), percent_text(groups[i].bytes, t.bytes)});
  }
  out += table_html("The largest first; a star stands for a number", heads, rows);
  if (groups.size() > kMaxReplicated)
    out += fmt::format("<p class=\"more\">And {} in {} more.</p>\n", grouped(rest, "name"),
                       grouped(groups.size() - kMaxReplicated, "pattern"));
  return out + "</section>\n";
}

// ---- rules ----

struct ReasonText {
  std::string_view reason, text;
};

constexpr ReasonText kReasons[] = {
    {"default", "no rule: whole on every rank"},
    {"fsdp", "no rule: cut by FSDP alone"},
    {"tied", "no rule: cut as the tensor that they are tied to"},
};

std::string title_of(const RuleNode& node, const Manifest& manifest) {
  if (node.rule != kNoManifestRule) return code(manifest.rules[node.rule].key);
  for (const ReasonText& row : kReasons) {
    if (row.reason == node.reason) return std::string(row.text);
  }
  return "no rule: " + html(node.reason);
}

// The styles of what a rule decided, each once.
std::string styles_of(const RuleNode& node, const Manifest& manifest) {
  std::vector<std::string> styles;
  const auto note = [&](const std::string& style) {
    if (!style.empty() && styles.size() < 4 && std::find(styles.begin(), styles.end(), style) == styles.end())
      styles.push_back(style);
  };
  for (const uint32_t param : node.params) note(layout_of(manifest, manifest.parameters[param]).style);
  for (const uint32_t module : node.modules) note(layout_of(manifest, manifest.modules[module]).style);
  for (std::string& style : styles) style = html(style);
  return join(styles, ", ");
}

template <typename Items>
std::vector<PathPattern> patterns_of(const Manifest& manifest, const std::vector<uint32_t>& indices,
                                     const Items& items) {
  std::vector<std::string_view> paths;
  for (const uint32_t i : indices) paths.push_back(path_of(manifest, items[i]));
  return path_patterns(paths);
}

std::string rule_html(const Manifest& manifest, const RuleNode& node) {
  uint64_t bytes = 0;
  for (const uint32_t param : node.params) bytes += whole_bytes(layout_of(manifest, manifest.parameters[param]));
  std::vector<std::string> counts;
  if (!node.params.empty())
    counts.push_back(fmt::format("{}, {}", grouped(node.params.size(), "parameter"), bytes_html(bytes)));
  if (node.params.empty() && !node.modules.empty()) counts.push_back(grouped(node.modules.size(), "boundary"));
  if (counts.empty()) counts.push_back("decides nothing");
  const std::string style = styles_of(node, manifest);
  std::string out = fmt::format(
      "<details class=\"rule\">\n<summary><span class=\"what\">{}{}</span> <span "
      "class=\"count\">{}</span></summary>\n<div "
      "class=\"body\">\n",
      title_of(node, manifest), style.empty() ? "" : fmt::format(" <span class=\"muted\">{}</span>", style),
      join(counts, ", "));
  out += "<dl class=\"facts\">\n";
  if (node.rule != kNoManifestRule) {
    const ManifestRule& rule = manifest.rules[node.rule];
    out += fact("In the plan", fmt::format("line {}, matches {}", rule.line, grouped(rule.matches)));
  }
  if (!node.params.empty())
    out += fact("Parameters",
                patterns_html(patterns_of(manifest, node.params, manifest.parameters), kMaxPatterns, "parameter"));
  if (!node.modules.empty())
    out += fact("Boundaries of",
                patterns_html(patterns_of(manifest, node.modules, manifest.modules), kMaxPatterns, "module"));
  return out + "</dl>\n</div>\n</details>\n";
}

std::string rules_html(const Manifest& manifest) {
  std::string out =
      "<section id=\"rules\">\n<h2>Rules</h2>\n<p>What each rule of the plan decides; every parameter stands "
      "once.</p>\n";
  size_t left = kMaxRules, reasons_left = kMaxReasons, rules_over = 0;
  uint64_t params_over = 0;
  for (const RuleBlock& block : group_by_rule(manifest)) {
    if (left == 0 && block.nodes[0].rule != kNoManifestRule) {
      rules_over += block.nodes.size();
      for (const RuleNode& node : block.nodes) params_over += node.params.size();
      continue;
    }
    uint64_t params = 0;
    for (const RuleNode& node : block.nodes) params += node.params.size();
    if (block.in_block) {
      out += fmt::format(
          "<details class=\"block\" open>\n<summary><span class=\"what\">block {}</span> <span class=\"count\">{}, "
          "{}</span></summary>\n<div class=\"body\">\n",
          code(block.block), grouped(block.nodes.size(), "rule"), grouped(params, "parameter"));
    }
    for (const RuleNode& node : block.nodes) {
      size_t& nodes_left = node.rule == kNoManifestRule ? reasons_left : left;
      if (nodes_left > 0) {
        out += rule_html(manifest, node);
        --nodes_left;
      } else {
        ++rules_over;
        params_over += node.params.size();
      }
    }
    if (block.in_block) out += "</div>\n</details>\n";
  }
  if (rules_over > 0)
    out += fmt::format("<p class=\"more\">And {} rules or reasons more, to which {} belong.</p>\n", grouped(rules_over),
                       grouped(params_over, "parameter"));
  return out + "</section>\n";
}

// ---- bytes moved ----

std::string traffic_text(const AxisTraffic& traffic) {
  const bool scatter = traffic.kind == CollectiveKind::ReduceScatter, sum = traffic.kind == CollectiveKind::AllReduce;
  const std::string_view what = traffic.part == StepPart::Gather ? "parameters gathered for FSDP"
                                : sum                            ? "gradients summed"
                                : scatter                        ? "gradients summed and cut"
                                                                 : "gradients gathered to be cut again";
  return fmt::format("{} ({})", what, to_text(traffic.kind));
}

std::string traffic_html(const Manifest& manifest, const ManifestMeasure& measure) {
  static constexpr std::string_view heads[] = {"Axis",          "What",           "#Tensors", "#Bytes at a time",
                                               "#Times a step", "#Sent by a rank"};
  static constexpr std::string_view boundary_heads[] = {"Axis", "Collective", "Pass", "#Places"};
  std::string out =
      "<section id=\"traffic\">\n<h2>Bytes moved</h2>\n<p>One training step, seen from rank 0. Gradients have the type "
      "of their parameter; "
      "FSDP gathers once forward and once backward; "
      "a rank sends what a ring makes it send.</p>\n";
  std::string rows;
  for (size_t i = 0; i < measure.traffic.axes.size(); ++i) {
    const AxisTraffic& t = measure.traffic.axes[i];
    rows += row_html(
        heads, std::vector<std::string>{code(manifest.mesh.axes[t.axis].name), traffic_text(t), grouped(t.tensors),
                                        bytes_html(t.payload), std::to_string(t.times), bytes_html(t.sent)});
    uint64_t sum = 0, kinds = 0;
    for (const AxisTraffic& other : measure.traffic.axes) {
      if (other.axis != t.axis) continue;
      sum += other.sent;
      ++kinds;
    }
    const bool last = i + 1 == measure.traffic.axes.size() || measure.traffic.axes[i + 1].axis != t.axis;
    if (last && kinds > 1)
      rows += fmt::format(
          "<tr class=\"sum\"><th scope=\"row\" colspan=\"5\">over {} together</th><td class=\"n\">{}</td></tr>\n",
          code(manifest.mesh.axes[t.axis].name), bytes_html(sum));
  }
  out += rows.empty() ? "<p>No gradient is reduced over an axis, and no parameter is gathered.</p>\n"
                      : table_html("Parameters and gradients, by axis", heads, rows);
  std::string boundaries;
  for (const BoundaryTraffic& b : measure.traffic.boundaries) {
    const std::string kind =
        fmt::format("{}{}", to_text(b.kind),
                    b.kind == CollectiveKind::LocalSlice ? " <span class=\"muted\">moves nothing</span>" : "");
    boundaries +=
        row_html(boundary_heads, std::vector<std::string>{code(manifest.mesh.axes[b.axis].name), kind,
                                                          b.backward ? "backward" : "forward", grouped(b.count)});
  }
  if (boundaries.empty()) return out + "<p>No module boundary has a collective.</p>\n</section>\n";
  out += table_html("Activations at module boundaries", boundary_heads, boundaries);
  return out +
         "<p class=\"more\">Their sizes depend on the batch, which the manifest does not know: these are counts of "
         "places, not "
         "bytes.</p>\n</section>\n";
}

std::string footer_html(const Manifest& manifest) {
  std::string out = fmt::format(
      "<footer>\n<p>Written by {} from a manifest of model {} (sha256 {}) and plan (sha256 {}). Pieces that do not "
      "divide: {}.",
      kToolVersion, code(manifest.model_name), code(manifest.model_sha256), code(manifest.plan_sha256),
      manifest.uneven == UnevenPolicy::Torch ? "cut as torch.chunk cuts them" : "an error");
  if (manifest.fsdp)
    out +=
        fmt::format(" FSDP: {} over {}, {}.", html(manifest.fsdp->policy),
                    code(manifest.mesh.axes[manifest.fsdp->axis].name), grouped(manifest.fsdp->units.size(), "unit"));
  return out + " All sizes are powers of 1024.</p>\n</footer>\n</body>\n</html>\n";
}

std::string nav_html(bool compared) {
  std::string out = "<nav aria-label=\"Sections\"><a href=\"#memory\">Memory</a>";
  if (compared) out += " <a href=\"#changes\">Changes</a>";
  return out +
         " <a href=\"#replicated\">Replicated</a> <a href=\"#rules\">Rules</a> <a href=\"#shards\">Shards</a> <a "
         "href=\"#traffic\">Bytes "
         "moved</a></nav>\n</header>\n<main>\n";
}

}  // namespace

bool render_html(const Manifest& manifest, const ManifestMeasure& measure, const std::optional<ReportAgainst>& against,
                 const Sink& sink) {
  return sink(head_html(manifest)) && sink(tiles_html(manifest, measure)) && sink(nav_html(against.has_value())) &&
         sink(memory_html(manifest, measure)) &&
         (!against || render_changes(*against->manifest, manifest, *against->diff, sink)) &&
         sink(replicated_html(manifest)) && sink(rules_html(manifest)) && render_shards(manifest, sink) &&
         sink(traffic_html(manifest, measure)) && sink("</main>\n") && sink(footer_html(manifest));
}

}  // namespace tpplan
