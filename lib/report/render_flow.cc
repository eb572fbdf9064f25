#include "report/render_flow.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <vector>

#include "base/text.h"
#include "cost/layer_path.h"
#include "report/html_text.h"
#include "report/render_timeline.h"

namespace tpplan {
namespace {

constexpr size_t kMostBoxes = 200;

// Spans in a row that one box shows.
struct FlowBox {
  const TimelineSpan* span = nullptr;  // the first
  std::string label;
  double seconds = 0;
};

LaneKind lane_kind(const StepPicture& picture, const TimelineSpan& span) {
  return picture.timeline.lanes[span.lane].kind;
}

bool is_collective(LaneKind kind) { return kind == LaneKind::ModelAxis || kind == LaneKind::DataAxis; }

// True if a span belongs to a module inside of this one.
bool has_inner_spans(const TimelineSpans& spans, std::string_view module) {
  return std::any_of(spans.spans.begin(), spans.spans.end(), [&](const TimelineSpan& span) {
    return span.module.size() > module.size() && span.module.starts_with(module) && span.module[module.size()] == '.';
  });
}

// Returns the name of a box: the last part of its module's path, or the operation if the module has others inside.
std::string label_of(const StepPicture& picture, const TimelineSpans& spans, const TimelineSpan& span) {
  if (lane_kind(picture, span) == LaneKind::Attention) return "attention";
  const std::string_view below = layer_path(span.module).below;
  const bool names_operation = below.empty() || has_inner_spans(spans, span.module);
  return std::string(names_operation ? span.name : below.substr(below.rfind('.') + 1));
}

// Returns the spans of a pass in the order in which they begin.
std::vector<const TimelineSpan*> shown_spans(const StepPicture& picture, const TimelineSpans& spans, bool recomputed) {
  std::vector<const TimelineSpan*> shown;
  for (const TimelineSpan& span : spans.spans) {
    const bool is_again = span.phase == TimelinePhase::Recomputed;
    if (lane_kind(picture, span) != LaneKind::Waiting && is_again == recomputed) shown.push_back(&span);
  }
  std::stable_sort(shown.begin(), shown.end(),
                   [](const TimelineSpan* a, const TimelineSpan* b) { return a->begin < b->begin; });
  return shown;
}

std::vector<FlowBox> boxes_of(const StepPicture& picture, const TimelineSpans& spans, bool recomputed) {
  std::vector<FlowBox> boxes;
  for (const TimelineSpan* span : shown_spans(picture, spans, recomputed)) {
    const LaneKind kind = lane_kind(picture, *span);
    const std::string label = label_of(picture, spans, *span);
    const bool joins = !boxes.empty() && !is_collective(kind) && lane_kind(picture, *boxes.back().span) == kind &&
                       boxes.back().span->module == span->module;
    if (!joins)
      boxes.push_back({.span = span, .label = label});
    else if (!(", " + boxes.back().label).ends_with(", " + label))
      boxes.back().label += ", " + label;
    boxes.back().seconds += span->seconds;
  }
  return boxes;
}

std::string_view style_of_kind(LaneKind kind) {
  static constexpr std::string_view kLaneStyles[] = {"b0", "b3", "b5", "b5", "b5", "b1", "b1"};
  static_assert(std::size(kLaneStyles) == kLaneKinds);
  return kLaneStyles[static_cast<size_t>(kind)];
}

std::string box_html(const StepPicture& picture, const FlowBox& box) {
  const TimelineSpan& span = *box.span;
  const TimelineLane& lane = picture.timeline.lanes[span.lane];
  if (!is_collective(lane.kind))
    return fmt::format(
        "<li class=\"{}\" title=\"{}\"><span class=\"what\">{}</span> <span class=\"sub\">{}</span></li>\n",
        style_of_kind(lane.kind), html(span.module), html(box.label), human_seconds(box.seconds));
  return fmt::format(
      "<li class=\"{} call\" title=\"{}\"><span class=\"what\">{} <bdi>{}</bdi></span> <span class=\"sub\">{}, "
      "{}{}</span></li>\n",
      style_of_kind(lane.kind), html(span.module), html(span.name), html(picture.mesh.axes[lane.axis].name),
      human_bytes(static_cast<uint64_t>(span.bytes)), human_seconds(box.seconds),
      lane.kind == LaneKind::DataAxis ? ", beside" : "");
}

std::string boxes_html(const StepPicture& picture, const TimelineSpans& spans, bool recomputed, std::string_view name) {
  const std::vector<FlowBox> boxes = boxes_of(picture, spans, recomputed);
  if (boxes.empty()) return "";
  std::string out = fmt::format("<p class=\"more\">{}</p>\n<ol class=\"flow\" aria-label=\"{}\">\n", name, name);
  for (size_t i = 0; i < std::min(kMostBoxes, boxes.size()); ++i) out += box_html(picture, boxes[i]);
  out += "</ol>\n";
  if (boxes.size() > kMostBoxes)
    out += fmt::format("<p class=\"more\">And {} more.</p>\n", grouped(boxes.size() - kMostBoxes));
  return out;
}

}  // namespace

std::string flow_html(const StepPicture& picture) {
  const LayerPasses passes = frequent_layer(picture.timeline);
  if (passes.forward == nullptr) return "";
  const auto spans = [&](const TimelineBlock* block) -> const TimelineSpans& {
    return picture.timeline.spans[block->spans];
  };
  std::string out = boxes_html(picture, spans(passes.forward), false, "Forward");
  if (passes.backward == nullptr) return out;
  out += "<details>\n<summary><span class=\"what\">Its backward pass</span></summary>\n<div class=\"body\">\n";
  out += boxes_html(picture, spans(passes.backward), true, "Recomputed");
  return out + boxes_html(picture, spans(passes.backward), false, "Backward") + "</div>\n</details>\n";
}

}  // namespace tpplan
