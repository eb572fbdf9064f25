#include "report/render_search_page.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "report/html_text.h"
#include "report/render_frame.h"

namespace tpplan {
namespace {

constexpr double kPlotHeight = 380, kPlotTop = 22, kPlotBottom = 44;  // of the picture, in pixels
constexpr size_t kPlanHues = 16;                                      // of the style sheet
constexpr int kMostTicks = 20;
constexpr double kPlotMargin = 7;  // of labels, in percent of the width

// A plan of the picture: the best one, or one of a mesh.
struct PlanDot {
  const MeshPlan* plan = nullptr;
  bool is_best = false, fits = false, is_pareto = false;
  size_t color = 0;  // by mesh
};

struct PlanPlot {
  const SearchReport& report;
  std::vector<PlanDot> dots;  // the fastest first
  std::vector<SearchMesh> meshes;
  double most_seconds = 0, most_bytes = 0, least_seconds = 0;
};

void add_dot(PlanPlot& d, const MeshPlan& plan, bool is_best) {
  const auto mesh = std::ranges::find(d.meshes, plan.mesh);
  const auto color = static_cast<size_t>(mesh - d.meshes.begin());
  if (mesh == d.meshes.end()) d.meshes.push_back(plan.mesh);
  const std::optional<uint64_t>& limit = d.report.request.memory;
  d.dots.push_back({&plan, is_best, !limit || plan.figures.memory <= *limit, false, color});
}

// Marks the plans that no other one beats in time and memory. @pre dots are sorted by time and memory
void mark_pareto(std::vector<PlanDot>& dots) {
  uint64_t least = UINT64_MAX;
  for (PlanDot& dot : dots) {
    dot.is_pareto = dot.plan->figures.memory < least;
    least = std::min(least, dot.plan->figures.memory);
  }
}

PlanPlot plot_of(const SearchReport& report) {
  PlanPlot d{.report = report, .dots = {}, .meshes = {}};
  const SearchAnswer& answer = report.answer;
  if (answer.best) add_dot(d, *answer.best, true);
  const auto is_known = [&](const MeshPlan& plan) {
    return std::ranges::any_of(d.dots, [&](const PlanDot& dot) { return dot.plan->choice == plan.choice; });
  };
  for (const auto* plans : {&answer.meshes, &answer.samples}) {
    for (const MeshPlan& plan : *plans) {
      if (!is_known(plan)) add_dot(d, plan, false);
    }
  }
  std::ranges::stable_sort(
      d.dots, {}, [](const PlanDot& dot) { return std::pair(dot.plan->figures.seconds, dot.plan->figures.memory); });
  mark_pareto(d.dots);
  double least = report.reference != nullptr ? report.reference->seconds : INFINITY;
  if (report.reference != nullptr) {
    d.most_seconds = report.reference->seconds;
    d.most_bytes = static_cast<double>(report.reference->memory);
  }
  for (const PlanDot& dot : d.dots) {
    least = std::min(least, dot.plan->figures.seconds);
    d.most_seconds = std::max(d.most_seconds, dot.plan->figures.seconds);
    d.most_bytes = std::max(d.most_bytes, static_cast<double>(dot.plan->figures.memory));
  }
  d.most_bytes = 1.05 * std::max(d.most_bytes, static_cast<double>(report.request.memory.value_or(0)));
  const double margin = std::max(0.2 * (d.most_seconds - least), 0.02 * d.most_seconds);
  d.least_seconds = std::max(0.0, least - margin);
  d.most_seconds += margin / 4;
  return d;
}

double plot_x(const PlanPlot& d, double seconds) {
  return 100 * (seconds - d.least_seconds) / (d.most_seconds - d.least_seconds);
}

double plot_y(const PlanPlot& d, double bytes) {
  return kPlotTop + (kPlotHeight - kPlotTop - kPlotBottom) * (1 - bytes / d.most_bytes);
}

// Returns 1, 2 or 5 x a power of ten, in a unit, so that at most about six steps reach `range`.
double tick_step(double range, double unit) {
  const double least = range / 6 / unit, power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least) return factor * power * unit;
  }
  return 10 * power * unit;
}

std::string plot_axes(const PlanPlot& d) {
  constexpr double kKibi = 1024;
  std::string out = "<g class=\"ticks\">";
  const double unit = std::pow(kKibi, std::max(0.0, std::floor(std::log(d.most_bytes / 6) / std::log(kKibi))));
  const double step = tick_step(d.most_bytes, unit), period = tick_step(d.most_seconds - d.least_seconds, 1);
  for (int i = 0; i < kMostTicks && i * step < d.most_bytes; ++i) {
    const double y = plot_y(d, i * step);
    out +=
        fmt::format("<line x2=\"100%\" y1=\"{0:.1f}\" y2=\"{0:.1f}\"/><text class=\"right\" y=\"{1:.1f}\">{2}</text>",
                    y, y - 4, human_bytes(static_cast<uint64_t>(i * step)));
  }
  const double first = std::ceil(d.least_seconds / period);
  for (int i = 0; i < kMostTicks && (first + i) * period < d.most_seconds; ++i) {
    const double x = plot_x(d, (first + i) * period);
    if (x > kPlotMargin && x < 100 - kPlotMargin)
      out += fmt::format("<text x=\"{:.2f}%\" y=\"{:.0f}\">{}</text>", x, kPlotHeight - kPlotBottom + 18,
                         human_seconds((first + i) * period));
  }
  return out + fmt::format("<text x=\"50%\" y=\"{:.0f}\">time of a step</text></g>\n", kPlotHeight - kPlotBottom + 36);
}

std::string plot_limit(const PlanPlot& d) {
  if (!d.report.request.memory) return "";
  const double y = plot_y(d, static_cast<double>(*d.report.request.memory));
  return fmt::format("<line class=\"limit\" x2=\"100%\" y1=\"{0:.1f}\" y2=\"{0:.1f}\"/>\n", y);
}

// Returns the line through the plans that no other one beats.
std::string pareto_html(const PlanPlot& d) {
  std::string out;
  const PlanDot* before = nullptr;
  for (const PlanDot& dot : d.dots) {
    if (!dot.is_pareto) continue;
    const auto place = [&](const PlanDot& at) {
      return std::pair(plot_x(d, at.plan->figures.seconds), plot_y(d, static_cast<double>(at.plan->figures.memory)));
    };
    if (before != nullptr) {
      const auto [x1, y1] = place(*before);
      const auto [x2, y2] = place(dot);
      out += fmt::format("<line class=\"pareto\" x1=\"{:.3f}%\" y1=\"{:.1f}\" x2=\"{:.3f}%\" y2=\"{:.1f}\"/>", x1, y1,
                         x2, y2);
    }
    before = &dot;
  }
  return out + "\n";
}

std::string figures_text(const StepFigures& figures) {
  return fmt::format("{}, {}", human_seconds(figures.seconds), human_bytes(figures.memory));
}

std::string mesh_words(const SearchMesh& mesh) { return html(search_mesh_text(mesh)); }

std::string dot_mark(const PlanPlot& d, const StepFigures& figures, std::string_view style, std::string_view label,
                     int label_y) {
  const double x = plot_x(d, figures.seconds), y = plot_y(d, static_cast<double>(figures.memory));
  const bool is_right = x > 50;
  return fmt::format(
      "<circle class=\"{0}\" cx=\"{1:.3f}%\" cy=\"{2:.1f}\" r=\"10\"/><text class=\"mark{3}\" x=\"{1:.3f}%\" "
      "y=\"{2:.1f}\" dx=\"{4}\" dy=\"{5}\">{6}</text>\n",
      style, x, y, is_right ? " left" : "", is_right ? -14 : 14, label_y, label);
}

std::string dots_html(const PlanPlot& d) {
  std::string out;
  for (size_t i = 0; i < d.dots.size(); ++i) {
    const PlanDot& dot = d.dots[i];
    const StepFigures& figures = dot.plan->figures;
    out += fmt::format(
        "<a href=\"#plan-{}\"><circle class=\"dot h{}{}\" cx=\"{:.3f}%\" cy=\"{:.1f}\" r=\"5\"/><title>{}: {}{}: "
        "{}</title></a>\n",
        i, dot.color % kPlanHues, dot.fits ? "" : " over", plot_x(d, figures.seconds),
        plot_y(d, static_cast<double>(figures.memory)), mesh_words(dot.plan->mesh), figures_text(figures),
        dot.fits ? "" : ", over the limit", html(layers_text(d.report.space, dot.plan->choice)));
    if (dot.is_best) out += dot_mark(d, figures, "ring", "best", -6);
  }
  if (d.report.reference != nullptr) out += dot_mark(d, *d.report.reference, "ring yours", "yours", 14);
  return out;
}

std::string mesh_legend(const PlanPlot& d) {
  std::string out = "<ul class=\"legend\">\n";
  for (size_t i = 0; i < d.meshes.size(); ++i)
    out += fmt::format(
        "<li><svg aria-hidden=\"true\"><circle class=\"dot h{}\" cx=\"50%\" cy=\"50%\" "
        "r=\"5\"/></svg><span>{}</span></li>\n",
        i % kPlanHues, mesh_words(d.meshes[i]));
  if (d.report.request.memory)
    out += fmt::format(
        "<li><svg aria-hidden=\"true\"><line class=\"limit\" x2=\"100%\" y1=\"50%\" y2=\"50%\"/></svg><span>memory of "
        "a "
        "rank: {}</span></li>\n",
        human_bytes(*d.report.request.memory));
  return out + "</ul>\n";
}

std::string priced_html(const std::optional<PricedStrategy>& other) {
  if (!other) return "";
  return fmt::format("{} and {}: {}", human_seconds(other->seconds), human_bytes(other->memory), html(other->strategy));
}

std::string units_table(const SearchReport& report, const MeshPlan& plan) {
  static constexpr std::string_view heads[] = {"Unit", "@Layers", "Strategy", "Next best",
                                               "Better, but over the limit"};
  std::string rows;
  for (const UnitChoice& unit : plan.units)
    rows += row_html(
        heads, std::vector<std::string>{std::string(unit_name(report.space, unit)),
                                        unit.layers.empty() ? "outside layers" : html(layer_ranges_text(unit.layers)),
                                        html(unit.strategy), priced_html(unit.next), priced_html(unit.over)});
  return table_html("Each unit, and the step if only this unit changes", heads, rows);
}

std::string plan_article(const PlanPlot& d, size_t id) {
  const PlanDot& dot = d.dots[id];
  const MeshPlan& plan = *dot.plan;
  return fmt::format(
             "<article class=\"plan{}\" id=\"plan-{}\">\n<h3>{}{}</h3>\n<p>{} a step, {} a rank{}. Layers: "
             "{}.</p>\n",
             dot.is_best ? " best" : "", id, mesh_words(plan.mesh), dot.is_best ? ", the best plan" : "",
             seconds_html(plan.figures.seconds), bytes_html(plan.figures.memory), dot.fits ? "" : ", over the limit",
             html(layers_text(d.report.space, plan.choice))) +
         units_table(d.report, plan) + "</article>\n";
}

std::string table_of_plans(const PlanPlot& d) {
  static constexpr std::string_view heads[] = {"Mesh", "#Time", "#Memory", "Layers", ""};
  std::string rows;
  for (size_t i = 0; i < d.dots.size(); ++i) {
    const PlanDot& dot = d.dots[i];
    std::string notes = dot.is_best ? "best" : dot.fits ? "" : "over the limit";
    if (dot.is_pareto) notes += notes.empty() ? "on the line" : ", on the line";
    rows += row_html(
        heads, std::vector<std::string>{fmt::format("<a href=\"#plan-{}\">{}</a>", i, mesh_words(dot.plan->mesh)),
                                        seconds_html(dot.plan->figures.seconds), bytes_html(dot.plan->figures.memory),
                                        html(layers_text(d.report.space, dot.plan->choice)), notes});
  }
  if (d.report.reference != nullptr)
    rows += row_html(heads, std::vector<std::string>{fmt::format("yours: {} on {}", code(d.report.reference_name),
                                                                 html(mesh_option_text(d.report.reference_mesh))),
                                                     seconds_html(d.report.reference->seconds),
                                                     bytes_html(d.report.reference->memory), "", ""});
  return table_html("All plans of the picture", heads, rows);
}

std::string search_answer(const SearchReport& report) {
  std::string out;
  const std::string text = render_search_answer(report);
  for (const std::string_view line : split(text, '\n')) {
    if (!line.empty()) out += fmt::format("<p>{}</p>\n", html(line));
  }
  return out;
}

}  // namespace

bool render_search_page(const SearchReport& report, const Sink& sink) {
  const PlanPlot d = plot_of(report);
  std::string out = document_head(report.model, "plan search");
  out += fmt::format(
      "<header>\n<p class=\"eyebrow\">Plan search</p>\n<h1>{}</h1>\n<p class=\"lead\">{}, batch {} of all ranks: "
      "{}</p>\n</header>\n<main>\n",
      html(report.model), grouped(static_cast<uint64_t>(report.request.ranks), "rank"), report.request.batch,
      code(report.command));
  out += "<section id=\"plans\">\n<h2>Time and memory</h2>\n" + search_answer(report);
  if (d.dots.empty()) return sink(out + "<p>No mesh has a plan.</p>\n</section>\n</main>\n</body>\n</html>\n");
  out += fmt::format(
      "<p>Each dot is a plan, the fastest for some amount of memory on its mesh; a click shows its layers. Grey dots "
      "are "
      "over the limit. No plan of the picture beats those on the line in time and memory.</p>\n<figure>\n<svg "
      "class=\"scatter\" width=\"100%\" height=\"{:.0f}\" role=\"group\" aria-label=\"time and memory of {}\">\n",
      kPlotHeight, grouped(d.dots.size(), "plan"));
  out += plot_axes(d) + plot_limit(d) + pareto_html(d) + dots_html(d) + "</svg>\n" + mesh_legend(d) + "</figure>\n";
  out += "<div class=\"plans\">\n";
  if (!sink(out)) return false;
  for (size_t i = 0; i < d.dots.size(); ++i) {
    if (!sink(plan_article(d, i))) return false;
  }
  return sink("</div>\n" + table_of_plans(d) +
              fmt::format("</section>\n</main>\n<footer>\n<p>Written by {}. Predicted by the topology, not measured. "
                          "Sizes use units of 1024.</p>\n</footer>\n</body>\n</html>\n",
                          kToolVersion));
}

}  // namespace tpplan
