#include "report/render_timeline.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "base/text.h"
#include "cost/layer_path.h"
#include "report/html_text.h"

namespace tpplan {
namespace {

constexpr double kFullHeight = 100;   // percent
constexpr double kThin = 0.6;         // percent of a width below which a rectangle has no outline
constexpr double kCurveUnits = 1000;  // of the curve's view box, in both directions
constexpr double kFlat = 0.5;         // units that a point of the curve may be off

std::string lane_row(std::string_view lane_name, const std::string& sum, std::string_view style,
                     const std::string& svg) {
  return fmt::format(
      "<li><span class=\"who\">{}</span> <span class=\"sum\">{}</span> <svg class=\"bar{}\" {}</svg></li>\n", lane_name,
      sum, style, svg);
}

std::string rect(std::string_view style, double x, double width, double y, double height) {
  return fmt::format("<rect class=\"{}\" x=\"{:.3f}%\" y=\"{:.1f}%\" width=\"{:.3f}%\" height=\"{:.1f}%\"/>", style, x,
                     y, width, height);
}

// ---- lanes ----

// Blocks in a row that have the same spans: equal layers.
struct BlockRun {
  size_t first = 0, last = 0;
};

std::vector<BlockRun> merge_equal_blocks(const StepTimeline& timeline) {
  std::vector<BlockRun> intervals;
  for (size_t i = 0; i < timeline.blocks.size(); ++i) {
    const TimelineBlock& block = timeline.blocks[i];
    const TimelineBlock* before = intervals.empty() ? nullptr : &timeline.blocks[intervals.back().last];
    if (before != nullptr && before->spans == block.spans && before->phase == block.phase &&
        before->batch == block.batch)
      intervals.back().last = i;
    else
      intervals.push_back({i, i});
  }
  return intervals;
}

std::string block_run_text(const StepTimeline& timeline, const BlockRun& run) {
  const TimelineBlock &first = timeline.blocks[run.first], &last = timeline.blocks[run.last];
  const std::string phase(to_text(first.phase));
  if (first.phase == TimelinePhase::Optimizer) return phase;
  if (first.layer < 0) return "outside layers, " + phase;
  std::vector<int64_t> numbers;
  for (size_t i = run.first; i <= run.last; ++i) numbers.push_back(timeline.blocks[i].layer);
  if (first.layer > last.layer) std::reverse(numbers.begin(), numbers.end());
  return fmt::format("{}, {}", html(tpplan::layers_text(first.stack, numbers)), phase);
}

// Returns the seconds of a lane in one pass, by phase.
std::array<double, kTimelinePhases> phase_seconds(const TimelineSpans& spans, uint32_t lane) {
  std::array<double, kTimelinePhases> seconds{};
  for (const TimelineSpan& span : spans.spans) {
    if (span.lane == lane) seconds[static_cast<size_t>(span.phase)] += span.seconds;
  }
  return seconds;
}

std::string lane_rects(const StepTimeline& timeline, const std::vector<BlockRun>& intervals, uint32_t lane,
                       double axis) {
  std::string out;
  for (const BlockRun& run : intervals) {
    const TimelineBlock& block = timeline.blocks[run.first];
    const TimelineSpans& spans = timeline.spans[block.spans];
    const auto busy = phase_seconds(spans, lane);
    const auto count = static_cast<double>(run.last - run.first + 1);
    double y = kFullHeight, sum = 0;
    std::string rects;
    for (size_t phase = 0; phase < kTimelinePhases; ++phase) {
      if (busy[phase] <= 0) continue;
      const double height = std::min(kFullHeight, percent_of(busy[phase], spans.seconds));
      y = std::max(0.0, y - height);
      sum += busy[phase] * count;
      rects += rect(style_of(static_cast<TimelinePhase>(phase)), percent_of(block.begin, axis),
                    percent_of(spans.seconds * count, axis), y, height);
    }
    if (!rects.empty())
      out += fmt::format("<g><title>{}: {} of {}</title>{}</g>", block_run_text(timeline, run), human_seconds(sum),
                         human_seconds(spans.seconds * count), rects);
  }
  return out;
}

std::string folded_rect(const FoldedBatches& folded, double axis) {
  if (folded.count == 0) return "";
  return fmt::format("<g><title>micro-batches {} to {}, as the first: {}</title>{}</g>", folded.first + 1,
                     folded.first + folded.count, human_seconds(folded.seconds),
                     rect("folded", percent_of(folded.begin, axis), percent_of(folded.seconds, axis), 0, kFullHeight));
}

// ---- the curve ----

struct CurvePoint {
  double x = 0;
  double y = 0;  // up
};

// Removes the points that a line between their neighbours meets.
std::vector<CurvePoint> without_collinear(const std::vector<CurvePoint>& points) {
  std::vector<CurvePoint> simplified;
  for (size_t i = 0; i < points.size(); ++i) {
    if (simplified.empty() || i + 1 == points.size()) {
      simplified.push_back(points[i]);
      continue;
    }
    const CurvePoint &a = simplified.back(), &b = points[i + 1];
    size_t from = i;
    while (from > 0 && points[from - 1].x > a.x) --from;
    bool is_straight = true;
    for (size_t k = from; k <= i && is_straight; ++k) {
      const double share = b.x > a.x ? (points[k].x - a.x) / (b.x - a.x) : 0;
      is_straight = b.x > a.x && std::abs(a.y + share * (b.y - a.y) - points[k].y) <= kFlat;
    }
    if (!is_straight) simplified.push_back(points[i]);
  }
  return simplified;
}

// Returns the upper edge of the groups up to `group`, a point at the begin, middle and end of the intervals' row.
std::vector<CurvePoint> edge_of(const StepPicture& picture, const StepScale& scale, size_t group) {
  std::vector<CurvePoint> points;
  const auto height = [&](const MemoryInterval& interval) {
    uint64_t sum = 0;
    for (size_t i = 0; i <= group; ++i) sum += interval.parts[i];
    return kCurveUnits * static_cast<double>(sum) / static_cast<double>(scale.bytes);
  };
  const auto at = [&](double seconds) { return kCurveUnits * seconds / scale.seconds; };
  points.push_back({0, height(picture.intervals.front())});
  for (const MemoryInterval& interval : picture.intervals)
    points.push_back({at(interval.begin + interval.seconds / 2), height(interval)});
  points.push_back({at(picture.timeline.seconds), height(picture.intervals.back())});
  return without_collinear(points);
}

// Returns the area between two edges.
std::string area(const std::vector<CurvePoint>& below, const std::vector<CurvePoint>& above, MemoryGroup group) {
  std::string path;
  const auto add = [&](const CurvePoint& point) {
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? 'M' : 'L', point.x, kCurveUnits - point.y);
  };
  for (const CurvePoint& point : above) add(point);
  for (size_t i = below.size(); i-- > 0;) add(below[i]);
  return fmt::format("<g><title>{}</title><path class=\"{}\" d=\"{}Z\"/></g>", to_text(group), style_of(group), path);
}

const MemoryInterval& highest(const std::vector<MemoryInterval>& intervals) {
  return *std::max_element(intervals.begin(), intervals.end(),
                           [](const MemoryInterval& a, const MemoryInterval& b) { return a.peak < b.peak; });
}

std::string curve_svg(const StepPicture& picture, const StepScale& scale) {
  const MemoryInterval& peak = highest(picture.intervals);
  const std::string when = picture.memory.peak ? fmt::format(" in the {} pass", picture.memory.peak->phase) : "";
  std::string svg = fmt::format(
      "role=\"img\" aria-label=\"memory of rank 0 over the step: at most {}{}\" viewBox=\"0 0 {} {}\" "
      "preserveAspectRatio=\"none\">",
      human_bytes(peak.peak), when, kCurveUnits, kCurveUnits);
  std::vector<CurvePoint> below{{0, 0}, {kCurveUnits * picture.timeline.seconds / scale.seconds, 0}};
  for (size_t group = 0; group < kMemoryGroups; ++group) {
    auto above = edge_of(picture, scale, group);
    const bool is_empty = std::all_of(picture.intervals.begin(), picture.intervals.end(),
                                      [&](const MemoryInterval& interval) { return interval.parts[group] == 0; });
    if (!is_empty) svg += area(below, above, static_cast<MemoryGroup>(group));
    below = std::move(above);
  }
  const auto line = [&](std::string_view style, double x1, double y1, double x2, double y2) {
    return fmt::format("<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>", style, x1, y1,
                       x2, y2);
  };
  const double x = kCurveUnits * (peak.begin + peak.seconds / 2) / scale.seconds,
               y = kCurveUnits * (1 - static_cast<double>(peak.peak) / static_cast<double>(scale.bytes));
  svg += line("peak", x, y, x, kCurveUnits);
  if (picture.topology.gpu.memory_bytes > 0 && picture.topology.gpu.memory_bytes < static_cast<double>(scale.bytes)) {
    const double top = kCurveUnits * (1 - picture.topology.gpu.memory_bytes / static_cast<double>(scale.bytes));
    svg += line("device", 0, top, kCurveUnits, top);
  }
  return svg;
}

std::string legend(const std::vector<std::pair<std::string_view, std::string_view>>& rows) {
  std::string out = "<ul class=\"legend\">\n";
  for (const auto& [style, text] : rows)
    out +=
        fmt::format("<li><svg aria-hidden=\"true\"><rect class=\"{}\" width=\"100%\" height=\"100%\"/></svg>{}</li>\n",
                    style, text);
  return out + "</ul>\n";
}

}  // namespace

double percent_of(double part, double total) { return total > 0 ? 100 * part / total : 0; }

std::string_view style_of(TimelinePhase phase) {
  static constexpr std::string_view kPhaseStyles[] = {"forward", "again", "backward", "grad"};
  static_assert(std::size(kPhaseStyles) == kTimelinePhases);
  return kPhaseStyles[static_cast<size_t>(phase)];
}

std::string_view style_of(MemoryGroup group) {
  static constexpr std::string_view kGroupStyles[] = {"cut", "opt", "grad", "master", "saved", "buf"};
  static_assert(std::size(kGroupStyles) == kMemoryGroups);
  return kGroupStyles[static_cast<size_t>(group)];
}

std::string phase_legend() {
  return legend({{"forward", "forward"}, {"again", "recomputed"}, {"backward", "backward"}, {"grad", "optimizer"}});
}

std::string group_legend() {
  std::vector<std::pair<std::string_view, std::string_view>> rows;
  for (size_t i = 0; i < kMemoryGroups; ++i)
    rows.emplace_back(style_of(static_cast<MemoryGroup>(i)), to_text(static_cast<MemoryGroup>(i)));
  return legend(rows);
}

std::string lanes_html(const StepPicture& picture, const StepScale& scale) {
  const StepTimeline& timeline = picture.timeline;
  const std::vector<double> sums = lane_seconds(timeline);
  const std::vector<BlockRun> intervals = merge_equal_blocks(timeline);
  std::string out = "<ul class=\"bars lanes\">\n";
  for (uint32_t lane = 0; lane < timeline.lanes.size(); ++lane) {
    const std::string name = html(lane_text(timeline.lanes[lane], picture.mesh));
    const bool is_data_lane = timeline.lanes[lane].kind == LaneKind::DataAxis;
    const std::string svg =
        fmt::format("role=\"img\" aria-label=\"{}{}: {} of {}\">{}{}", name, is_data_lane ? ", beside the kernels" : "",
                    human_seconds(sums[lane]), human_seconds(timeline.seconds),
                    lane_rects(timeline, intervals, lane, scale.seconds), folded_rect(timeline.folded, scale.seconds));
    out += lane_row(name, seconds_html(sums[lane]), "", svg);
  }
  return out + "</ul>\n";
}

std::string curve_html(const StepPicture& picture, const StepScale& scale) {
  if (picture.intervals.empty()) return "";
  return "<ul class=\"bars lanes\">\n" +
         lane_row("memory", bytes_html(highest(picture.intervals).peak), " curve", curve_svg(picture, scale)) +
         "</ul>\n";
}

LayerPasses frequent_layer(const StepTimeline& timeline) {
  std::map<uint32_t, uint64_t> counts;
  for (const TimelineBlock& block : timeline.blocks) {
    if (block.layer >= 0 && block.phase == TimelinePhase::Forward && block.batch == 0) ++counts[block.spans];
  }
  LayerPasses passes;
  for (const TimelineBlock& block : timeline.blocks) {
    if (block.layer < 0 || block.batch != 0) continue;
    const bool is_forward = block.phase == TimelinePhase::Forward;
    if (is_forward && counts[block.spans] > passes.count) {
      passes = {.forward = &block, .count = counts[block.spans]};
    } else if (!is_forward && passes.forward != nullptr && passes.forward->layer == block.layer &&
               passes.forward->stack == block.stack) {
      passes.backward = &block;
    }
  }
  return passes;
}

std::string layer_html(const StepPicture& picture) {
  const StepTimeline& timeline = picture.timeline;
  const LayerPasses passes = frequent_layer(timeline);
  if (passes.forward == nullptr) return "";
  std::vector<const TimelineBlock*> blocks{passes.forward};
  if (passes.backward != nullptr) blocks.push_back(passes.backward);
  double axis = 0;
  for (const TimelineBlock* block : blocks) axis += timeline.spans[block->spans].seconds;
  std::string out = "<ul class=\"bars lanes layer\">\n";
  for (uint32_t lane = 0; lane < timeline.lanes.size(); ++lane) {
    std::string rects;
    double begin = 0, sum = 0;
    for (const TimelineBlock* block : blocks) {
      for (const TimelineSpan& span : timeline.spans[block->spans].spans) {
        if (span.lane != lane) continue;
        const double width = percent_of(span.seconds, axis);
        const std::string style = fmt::format("{}{}", style_of(span.phase), width < kThin ? " thin" : "");
        rects += fmt::format("<g><title>{} {}, {}: {}</title>{}</g>", html(span.module), html(span.name),
                             to_text(span.phase), human_seconds(span.seconds),
                             rect(style, percent_of(begin + span.begin, axis), width, 0, kFullHeight));
        sum += span.seconds;
      }
      begin += timeline.spans[block->spans].seconds;
    }
    if (rects.empty()) continue;
    const std::string name = html(lane_text(timeline.lanes[lane], picture.mesh));
    out += lane_row(name, seconds_html(sum), "",
                    fmt::format("role=\"img\" aria-label=\"{} in one layer: {}\">{}", name, human_seconds(sum), rects));
  }
  return out + "</ul>\n";
}

}  // namespace tpplan
