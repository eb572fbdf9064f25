#include "cost/step_timeline.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace tpplan {
namespace {

constexpr int64_t kMostBatches = 4;  // with blocks of their own

// A layer, or the kernels between two layers, in the order of the forward pass.
struct StepSection {
  const OrderedLayer* place = nullptr;   // nullptr: outside of layers
  uint32_t work = 0;                     // into StepWork::layers
  std::vector<uint32_t> kernels;         // into LayerWork::kernels
  std::vector<uint32_t> calls;           // into LayerWork::calls
  bool is_first = true, is_last = true;  // of the sections of this work: the data axes gather and reduce there
};

struct TimelineDrawing {
  const StepSetting& setting;
  const StepBreakdown parts;
  double contention = 0;
  StepTimeline timeline;
  std::vector<StepSection> sections;
  std::map<std::tuple<size_t, bool, bool>, uint32_t> known;  // work or section, forward, last micro-batch: its spans
  double now = 0;
};

uint32_t lane_of(TimelineDrawing& d, LaneKind kind, AxisId axis = kNoAxis) {
  std::vector<TimelineLane>& lanes = d.timeline.lanes;
  const auto found = std::find_if(lanes.begin(), lanes.end(),
                                  [&](const TimelineLane& lane) { return lane.kind == kind && lane.axis == axis; });
  if (found != lanes.end()) return static_cast<uint32_t>(found - lanes.begin());
  lanes.push_back({kind, axis});
  return static_cast<uint32_t>(lanes.size() - 1);
}

LaneKind lane_of_kernel(KernelKind kind) {
  return kind == KernelKind::Matmul      ? LaneKind::Matmuls
         : kind == KernelKind::Attention ? LaneKind::Attention
                                         : LaneKind::Elementwise;
}

// ---- sections ----

bool is_in_module(std::string_view path, std::string_view module) {
  return module.empty() || (path.starts_with(module) && (path.size() == module.size() || path[module.size()] == '.'));
}

// Returns the number of kernels of the section that run before a collective. In the forward pass a gather comes before
// the kernels of its module, unless it gathers the result of a linear; all others come after them. In the
// backward pass this is mirrored: gathers are of results' gradients, reductions of operands' gradients.
size_t kernels_before(const TimelineDrawing& d, const StepSection& section, const BlockingCall& call) {
  const LayerWork& work = d.setting.work.layers[section.work];
  size_t first = section.kernels.size(), last = 0;
  bool is_of_result = false;
  for (size_t i = 0; i < section.kernels.size(); ++i) {
    const Kernel& kernel = work.kernels[section.kernels[i]];
    if (!is_in_module(kernel.module, call.module)) continue;
    first = std::min(first, i);
    last = i + 1;
    is_of_result |= kernel.kind == KernelKind::Matmul && kernel.module == call.module && call.width == kernel.n &&
                    call.width != kernel.k;
  }
  if (last == 0) return call.backward ? 0 : section.kernels.size();
  const bool gathers_operand = call.kind == CollectiveKind::AllGather && !is_of_result;
  const bool is_before = call.backward ? call.kind != CollectiveKind::AllGather : gathers_operand;
  return is_before ? first : last;
}

// Splits the kernels outside of layers by the layers that they are between.
void add_sections(TimelineDrawing& d) {
  const StepWork& work = d.setting.work;
  const std::vector<OrderedLayer>& order = work.order;
  std::vector<StepSection> between(order.size() + 1);
  for (uint32_t i = 0; i < work.layers[0].kernels.size(); ++i) {
    const uint32_t op = work.layers[0].kernels[i].op;
    const auto before = std::count_if(order.begin(), order.end(), [op](const OrderedLayer& l) { return l.op < op; });
    between[static_cast<size_t>(before)].kernels.push_back(i);
  }
  for (uint32_t i = 0; i < work.layers[0].calls.size(); ++i) {
    const auto owns = [&](const StepSection& section) {
      return std::any_of(section.kernels.begin(), section.kernels.end(), [&](uint32_t k) {
        return is_in_module(work.layers[0].kernels[k].module, work.layers[0].calls[i].module);
      });
    };
    const auto owner = std::find_if(between.begin(), between.end(), owns);
    (owner == between.end() ? between.back() : *owner).calls.push_back(i);
  }
  for (size_t i = 0; i <= order.size(); ++i) {
    between[i].is_first = i == 0;
    between[i].is_last = i == order.size();
    d.sections.push_back(std::move(between[i]));
    if (i == order.size()) break;
    StepSection layer{.place = &order[i], .work = order[i].work};
    for (uint32_t k = 0; k < work.layers[layer.work].kernels.size(); ++k) layer.kernels.push_back(k);
    for (uint32_t k = 0; k < work.layers[layer.work].calls.size(); ++k) layer.calls.push_back(k);
    d.sections.push_back(std::move(layer));
  }
}

// ---- the spans of a section ----

struct SectionPass {
  TimelineDrawing& d;
  const StepSection& section;
  const LayerWork& work;
  const LayerSeconds& seconds;
  TimelineSpans out;
};

void add_span(SectionPass& pass, uint32_t lane, TimelinePhase phase, double seconds, std::string_view name,
              std::string_view module, double bytes = 0) {
  if (seconds <= 0) return;
  pass.out.spans.push_back({lane, phase, pass.out.seconds, seconds, bytes, name, module});
  pass.out.seconds += seconds;
}

void add_kernel(SectionPass& pass, size_t at, TimelinePhase phase, double PassSeconds::*part) {
  const Kernel& kernel = pass.work.kernels[pass.section.kernels[at]];
  add_span(pass, lane_of(pass.d, lane_of_kernel(kernel.kind)), phase,
           pass.seconds.kernels[pass.section.kernels[at]].*part, kernel.name, kernel.module);
}

// Adds the collectives that come after `before` kernels.
void add_waited_calls(SectionPass& pass, size_t before, TimelinePhase phase, double PassSeconds::*part) {
  for (const uint32_t id : pass.section.calls) {
    const BlockingCall& call = pass.work.calls[id];
    if (kernels_before(pass.d, pass.section, call) != before) continue;
    add_span(pass, lane_of(pass.d, LaneKind::ModelAxis, call.axis), phase, pass.seconds.calls[id].*part,
             to_text(call.kind), call.module, call.bytes);
  }
}

void add_kernels(SectionPass& pass, TimelinePhase phase, double PassSeconds::*part) {
  const size_t count = pass.section.kernels.size();
  for (size_t i = 0; i <= count; ++i) {
    add_waited_calls(pass, i, phase, part);
    if (i < count) add_kernel(pass, i, phase, part);
  }
}

void add_backward_kernels(SectionPass& pass) {
  for (size_t i = pass.section.kernels.size() + 1; i-- > 0;) {
    if (i < pass.section.kernels.size()) add_kernel(pass, i, TimelinePhase::Backward, &PassSeconds::backward);
    add_waited_calls(pass, i, TimelinePhase::Backward, &PassSeconds::backward);
  }
}

// Adds the collectives beside the kernels, which last `kernels` seconds, and what both cost each other. Gathers begin
// with the kernels, reductions end with them.
void add_overlapped(SectionPass& pass, TimelinePhase phase, double PassSeconds::*part, bool is_last_batch,
                    double kernels) {
  std::vector<TimelineSpan> calls;
  double sum = 0;
  for (const OverlappedCall& call : pass.seconds.overlapped) {
    const double seconds = call.seconds.*part;
    if (seconds <= 0 || (call.is_last_batch_only && !is_last_batch)) continue;
    calls.push_back({lane_of(pass.d, LaneKind::DataAxis, call.axis), phase, sum, seconds, call.bytes,
                     to_text(call.kind), pass.section.place == nullptr ? "" : pass.section.place->stack});
    sum += seconds;
  }
  if (calls.empty()) return;
  for (TimelineSpan& call : calls) {
    const bool is_gather = call.name == to_text(CollectiveKind::AllGather);
    call.begin += pass.out.seconds - kernels + (is_gather ? 0 : std::max(0.0, kernels - sum));
    pass.out.spans.push_back(call);
  }
  const uint32_t lane = lane_of(pass.d, LaneKind::Waiting);
  add_span(pass, lane, phase, std::max(0.0, sum - kernels), calls.back().name, "");
  add_span(pass, lane, phase, pass.d.contention * std::min(kernels, sum), "contention", "");
}

uint32_t spans_of(TimelineDrawing& d, size_t index, bool forward, bool is_last_batch) {
  const StepSection& section = d.sections[index];
  const size_t key = section.place == nullptr ? index : d.sections.size() + section.work;
  const auto [entry, is_new] = d.known.try_emplace({key, forward, is_last_batch}, d.timeline.spans.size());
  if (!is_new) return entry->second;
  SectionPass pass{d, section, d.setting.work.layers[section.work], d.parts.layers[section.work], {}};
  const bool is_outside = section.place == nullptr;
  const TimelinePhase phase = forward ? TimelinePhase::Forward : TimelinePhase::Backward;
  const auto part = forward ? &PassSeconds::forward : &PassSeconds::backward;
  const uint32_t elementwise = lane_of(d, LaneKind::Elementwise);
  const bool moves_data = !is_outside || section.is_first;
  if (is_outside && moves_data && forward) add_overlapped(pass, phase, part, is_last_batch, 0);
  if (moves_data) add_span(pass, elementwise, phase, pass.seconds.copies.*part, "FSDP copies", "");
  if (forward) {
    add_kernels(pass, phase, part);
    if (is_outside && section.is_last)
      add_span(pass, elementwise, phase, d.parts.loss / static_cast<double>(d.timeline.batches), "loss", "");
  } else {
    add_kernels(pass, TimelinePhase::Recomputed, &PassSeconds::again);
    add_backward_kernels(pass);
  }
  if (!is_outside) add_overlapped(pass, phase, part, is_last_batch, pass.out.seconds);
  if (is_outside && moves_data && !forward) add_overlapped(pass, phase, part, is_last_batch, 0);
  d.timeline.spans.push_back(std::move(pass.out));
  return entry->second;
}

// ---- the step ----

void add_block(TimelineDrawing& d, size_t index, bool forward, int64_t batch) {
  const uint32_t spans = spans_of(d, index, forward, batch + 1 == d.timeline.batches);
  if (d.timeline.spans[spans].seconds <= 0) return;
  const OrderedLayer* place = d.sections[index].place;
  d.timeline.blocks.push_back({.phase = forward ? TimelinePhase::Forward : TimelinePhase::Backward,
                               .stack = place == nullptr ? std::string_view{} : place->stack,
                               .layer = place == nullptr ? -1 : place->number,
                               .batch = batch,
                               .begin = d.now,
                               .spans = spans});
  d.now += d.timeline.spans[spans].seconds;
}

void add_batch(TimelineDrawing& d, int64_t batch) {
  for (size_t i = 0; i < d.sections.size(); ++i) add_block(d, i, true, batch);
  for (size_t i = d.sections.size(); i-- > 0;) add_block(d, i, false, batch);
}

void add_optimizer(TimelineDrawing& d) {
  if (d.parts.optimizer <= 0) return;
  const TimelineSpan span{.lane = lane_of(d, LaneKind::Optimizer),
                          .phase = TimelinePhase::Optimizer,
                          .seconds = d.parts.optimizer,
                          .name = d.setting.recipe.name,
                          .module = {}};
  d.timeline.blocks.push_back({.phase = TimelinePhase::Optimizer,
                               .stack = {},
                               .batch = d.timeline.batches - 1,
                               .begin = d.now,
                               .spans = static_cast<uint32_t>(d.timeline.spans.size())});
  d.timeline.spans.push_back({d.parts.optimizer, {span}});
  d.now += d.parts.optimizer;
}

// Sorts the lanes by kind and axis.
void sort_lanes(StepTimeline& timeline) {
  std::vector<uint32_t> order(timeline.lanes.size()), place(timeline.lanes.size());
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto key = [&](uint32_t i) { return std::pair(timeline.lanes[i].kind, timeline.lanes[i].axis); };
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return key(a) < key(b); });
  std::vector<TimelineLane> sorted;
  for (const uint32_t i : order) {
    place[i] = static_cast<uint32_t>(sorted.size());
    sorted.push_back(timeline.lanes[i]);
  }
  timeline.lanes = std::move(sorted);
  for (TimelineSpans& spans : timeline.spans) {
    for (TimelineSpan& span : spans.spans) span.lane = place[span.lane];
  }
}

}  // namespace

StepTimeline step_timeline(const StepSetting& setting, const Topology& topology, const AssumptionScale& scale) {
  TimelineDrawing d{.setting = setting,
                    .parts = step_breakdown(setting, topology, scale),
                    .contention = topology.gpu.contention,
                    .timeline = {},
                    .sections = {},
                    .known = {}};
  d.timeline.batches = std::max<int64_t>(setting.run.accumulation, 1);
  add_sections(d);
  const bool folds = d.timeline.batches > kMostBatches;
  for (int64_t batch = 0; batch < d.timeline.batches; ++batch) {
    const double begin = d.now;
    add_batch(d, batch);
    if (!folds || batch > 0) continue;
    d.timeline.folded = {.first = 1, .count = d.timeline.batches - 2, .begin = d.now};
    d.timeline.folded.seconds = static_cast<double>(d.timeline.folded.count) * (d.now - begin);
    d.now += d.timeline.folded.seconds;
    batch += d.timeline.folded.count;
  }
  add_optimizer(d);
  d.timeline.seconds = d.now;
  sort_lanes(d.timeline);
  return std::move(d.timeline);
}

std::vector<double> lane_seconds(const StepTimeline& timeline) {
  std::vector<double> seconds(timeline.lanes.size(), 0);
  for (const TimelineBlock& block : timeline.blocks) {
    const bool repeats = block.batch == 0 && block.phase != TimelinePhase::Optimizer;
    const double times = 1 + (repeats ? static_cast<double>(timeline.folded.count) : 0);
    for (const TimelineSpan& span : timeline.spans[block.spans].spans) seconds[span.lane] += times * span.seconds;
  }
  return seconds;
}

std::string lane_text(const TimelineLane& lane, const Mesh& mesh) {
  static constexpr std::string_view kTexts[] = {"matmuls", "attention", "elementwise", "optimizer", "waiting"};
  static_assert(std::size(kTexts) == static_cast<size_t>(LaneKind::ModelAxis));
  if (lane.axis != kNoAxis) return fmt::format("{} collectives", mesh.axes[lane.axis].name);
  return std::string(kTexts[static_cast<size_t>(lane.kind)]);
}

std::string_view to_text(TimelinePhase phase) {
  static constexpr std::string_view kTexts[] = {"forward", "recomputed", "backward", "optimizer"};
  static_assert(std::size(kTexts) == kTimelinePhases);
  return kTexts[static_cast<size_t>(phase)];
}

}  // namespace tpplan
