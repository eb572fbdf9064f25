#include "report/render_pictures.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <vector>

#include "base/text.h"
#include "cost/layer_path.h"
#include "report/html_text.h"
#include "report/render_flow.h"
#include "report/render_mesh.h"
#include "report/render_timeline.h"

namespace tpplan {
namespace {

constexpr double kAbove = 1.02;     // an axis of bytes ends above its largest value
constexpr double kMostEmpty = 2.5;  // times the peak: a larger device is not on the axis of the curve

uint64_t device_bytes(const StepPicture& picture) { return static_cast<uint64_t>(picture.topology.gpu.memory_bytes); }

// Returns the axes of the curves, and with `always` those of bars that have the device in any case.
StepScale scale_of(const std::vector<const StepPicture*>& sides, bool always) {
  StepScale scale;
  double peak = 1, device = 0;
  for (const StepPicture* side : sides) {
    scale.seconds = std::max(scale.seconds, side->timeline.seconds);
    peak = std::max(peak, static_cast<double>(side->memory.total));
    device = std::max(device, static_cast<double>(device_bytes(*side)));
  }
  scale.bytes = static_cast<uint64_t>(kAbove * (always || device < kMostEmpty * peak ? std::max(peak, device) : peak));
  return scale;
}

// Calls `draw` for each side, and puts the results side by side.
template <typename Draw>
std::string side_by_side(const std::vector<const StepPicture*>& sides, Draw draw) {
  if (sides.size() == 1) return "<figure>\n" + draw(*sides[0]) + "</figure>\n";
  std::string out = "<div class=\"sides\">\n";
  for (size_t i = 0; i < sides.size(); ++i)
    out +=
        fmt::format("<figure>\n<figcaption>{}</figcaption>\n{}</figure>\n", i == 0 ? "Before" : "Now", draw(*sides[i]));
  return out + "</div>\n";
}

std::string fit_text(const StepPicture& picture) {
  const uint64_t device = device_bytes(picture), peak = picture.memory.total;
  if (device == 0) return "The topology has no memory size.";
  if (peak > device)
    return fmt::format("<strong>Does not fit</strong>: {} more than the {} of the device.", bytes_html(peak - device),
                       bytes_html(device));
  return fmt::format("Fits: {} of the {} of the device stay free.", bytes_html(device - peak), bytes_html(device));
}

BytesByGroup peak_parts(const StepPicture& picture) {
  const auto peak = std::max_element(picture.intervals.begin(), picture.intervals.end(),
                                     [](const MemoryInterval& a, const MemoryInterval& b) { return a.peak < b.peak; });
  return peak->parts;
}

std::string device_bar(const StepPicture& picture, const StepScale& scale) {
  if (picture.intervals.empty()) return "<p>The memory over the step is not known.</p>\n";
  const BytesByGroup parts = peak_parts(picture);
  const auto share = [&](double bytes) { return percent_of(bytes, static_cast<double>(scale.bytes)); };
  std::string rects;
  std::vector<std::string> words;
  double x = 0;
  for (size_t i = 0; i < kMemoryGroups; ++i) {
    if (parts[i] == 0) continue;
    const auto group = static_cast<MemoryGroup>(i);
    const double width = share(static_cast<double>(parts[i]));
    rects += fmt::format(
        "<g><title>{} {}</title><rect class=\"{}\" x=\"{:.3f}%\" y=\"0\" width=\"{:.3f}%\" height=\"100%\"/></g>",
        to_text(group), human_bytes(parts[i]), style_of(group), x, width);
    words.push_back(fmt::format("{} {}", to_text(group), human_bytes(parts[i])));
    x += width;
  }
  if (device_bytes(picture) > 0) {
    const double at = share(picture.topology.gpu.memory_bytes);
    rects += fmt::format("<line class=\"ideal\" x1=\"{0:.3f}%\" y1=\"0\" x2=\"{0:.3f}%\" y2=\"100%\"/>", at);
  }
  std::string out = fmt::format(
      "<ul class=\"bars\"><li><span class=\"who\">rank 0, at the peak</span> <span class=\"sum\">{}</span> <svg "
      "class=\"bar\" "
      "role=\"img\" aria-label=\"at the peak: {}\">{}</svg></li></ul>\n",
      bytes_html(picture.memory.total), join(words, ", "), rects);
  const MemoryPeak& peak = *picture.memory.peak;
  out += fmt::format("<p>{} The peak is in the {} pass{}{}. The allocator reserves {}.</p>\n", fit_text(picture),
                     html(peak.phase), peak.operation.empty() ? "" : fmt::format(", at {}", code(peak.operation)),
                     peak.module.empty() ? "" : fmt::format(" of {}", code(peak.module)), bytes_html(peak.reserved));
  return out;
}

std::string time_axis(const StepScale& scale) {
  return fmt::format("<p class=\"axis\" aria-hidden=\"true\"><span>0</span><span>{}</span><span>{}</span></p>\n",
                     human_seconds(scale.seconds / 2), human_seconds(scale.seconds));
}

std::string layer_caption(const StepPicture& picture) {
  const LayerPasses passes = frequent_layer(picture.timeline);
  if (passes.forward == nullptr) return "";
  const StepTimeline& timeline = picture.timeline;
  std::string out =
      fmt::format("<p>{}, as {} in the forward pass: {} forward",
                  code(tpplan::layers_text(passes.forward->stack, {passes.forward->layer})),
                  grouped(passes.count, "layer"), seconds_html(timeline.spans[passes.forward->spans].seconds));
  if (passes.backward != nullptr)
    out += fmt::format(", then {} backward", seconds_html(timeline.spans[passes.backward->spans].seconds));
  return out + ".</p>\n";
}

std::string terms_table(const StepPictures& pictures) {
  static constexpr std::string_view heads[] = {"Term", "#Time", "#Before", "Formula"};
  static constexpr std::string_view single_head[] = {"Term", "#Time", "Formula"};
  const auto seconds_of = [](const StepPicture& picture, std::string_view name) {
    for (const TimeTerm& term : picture.answer.step.terms) {
      if (term.name == name) return seconds_html(term.seconds);
    }
    return std::string();
  };
  const std::span<const std::string_view> shown = pictures.before == nullptr
                                                      ? std::span<const std::string_view>(single_head)
                                                      : std::span<const std::string_view>(heads);
  std::string rows;
  for (const TimeTerm& term : pictures.now->answer.step.terms) {
    std::vector<std::string> cells{html(term.name), seconds_html(term.seconds)};
    if (pictures.before != nullptr) cells.push_back(seconds_of(*pictures.before, term.name));
    cells.push_back(html(term.formula));
    rows += row_html(shown, cells);
  }
  return "<details>\n<summary><span class=\"what\">The terms of the step, with their formulas</span></summary>\n<div "
         "class=\"body\">\n" +
         table_html("Seconds of rank 0", shown, rows) + "</div>\n</details>\n";
}

std::string intro(const StepPicture& picture) {
  const PrintedStepTime& answer = picture.answer;
  const std::string& machine = picture.topology.name.empty() ? picture.topology.device : picture.topology.name;
  const FoldedBatches& folded = picture.timeline.folded;
  return fmt::format("<p>{}{}: four of five such steps take {} to {}.{}</p>\n", seconds_html(answer.step.seconds),
                     machine.empty() ? "" : fmt::format(" on {}", html(machine)), seconds_html(answer.interval.low),
                     seconds_html(answer.interval.high),
                     folded.count == 0 ? ""
                                       : fmt::format(" Micro-batches {} to {} are like the first, and drawn as one.",
                                                     folded.first + 1, folded.first + folded.count));
}

}  // namespace

std::string pictures_html(const StepPictures& pictures) {
  std::vector<const StepPicture*> sides{pictures.now};
  if (pictures.before != nullptr) sides.insert(sides.begin(), pictures.before);
  const StepScale scale = scale_of(sides, false), bars = scale_of(sides, true);
  std::string out = "<section id=\"step\">\n<h2>A step</h2>\n";
  out += side_by_side(
      sides, [&](const StepPicture& side) { return intro(side) + lanes_html(side, scale) + time_axis(scale); });
  out += phase_legend();
  out +=
      "<p class=\"more\">Equal layers in a row are one rectangle: its width is their time, its height the share of "
      "that time in which the lane is busy. Collectives of data axes run beside the other lanes.</p>\n";
  out += "<h3>Memory over the step</h3>\n" +
         side_by_side(sides, [&](const StepPicture& side) { return curve_html(side, scale) + time_axis(scale); });
  out += group_legend();
  out +=
      "<p class=\"more\">The vertical line marks the peak. A dashed line marks the memory of the device, unless it is "
      "far above the peak.</p>\n";
  out += "<h3>Memory of a rank, with activations</h3>\n" +
         side_by_side(sides, [&](const StepPicture& side) { return device_bar(side, bars); });
  out += "<h3>One layer</h3>\n" + side_by_side(sides, [](const StepPicture& side) {
           return layer_caption(side) + layer_html(side) + flow_html(side);
         });
  out += "<h3>The mesh on its hosts</h3>\n" +
         side_by_side(sides, [](const StepPicture& side) { return mesh_picture(side.mesh, side.topology); });
  return out + terms_table(pictures) + "</section>\n";
}

}  // namespace tpplan
