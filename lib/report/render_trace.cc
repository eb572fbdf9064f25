#include "report/render_trace.h"

#include <spdlog/fmt/fmt.h>

#include "cost/layer_path.h"
#include "text/json_writer.h"

namespace tpplan {
namespace {

constexpr double kMicroseconds = 1e6;
constexpr int kDigits = 6;                       // of microseconds
constexpr uint32_t kLayers = 0, kFirstLane = 1;  // threads

void write_time_field(JsonWriter& json, std::string_view key, double seconds) {
  write_key(json, key);
  write_number(json, seconds * kMicroseconds, kDigits);
}

void begin_event(JsonWriter& json, std::string_view kind, std::string_view name) {
  next_line(json, 2);
  begin_object(json);
  write_field(json, "ph", kind);
  write_field(json, "pid", 0);
  write_field(json, "name", name);
}

void write_names(JsonWriter& json, const StepPicture& picture) {
  const auto name_event = [&](std::string_view kind, uint32_t thread, std::string_view name) {
    begin_event(json, "M", kind);
    write_field(json, "tid", thread);
    write_key(json, "args");
    begin_object(json);
    write_field(json, "name", name);
    end_object(json);
    end_object(json);
  };
  name_event("process_name", kLayers, "rank 0");
  name_event("thread_name", kLayers, "layers");
  for (uint32_t lane = 0; lane < picture.timeline.lanes.size(); ++lane)
    name_event("thread_name", kFirstLane + lane, lane_text(picture.timeline.lanes[lane], picture.mesh));
}

void begin_span_event(JsonWriter& json, uint32_t thread, std::string_view name, std::string_view category, double begin,
                      double seconds) {
  begin_event(json, "X", name);
  write_field(json, "tid", thread);
  write_field(json, "cat", category);
  write_time_field(json, "ts", begin);
  write_time_field(json, "dur", seconds);
  write_key(json, "args");
  begin_object(json);
}

void end_span_event(JsonWriter& json) {
  end_object(json);
  end_object(json);
}

void write_block(JsonWriter& json, const StepTimeline& timeline, const TimelineBlock& block) {
  const TimelineSpans& spans = timeline.spans[block.spans];
  const std::string layer = block.layer < 0 ? "outside layers" : tpplan::layers_text(block.stack, {block.layer});
  begin_span_event(json, kLayers, layer, to_text(block.phase), block.begin, spans.seconds);
  write_field(json, "micro_batch", block.batch);
  end_span_event(json);
  for (const TimelineSpan& span : spans.spans) {
    begin_span_event(json, kFirstLane + span.lane, span.name, to_text(span.phase), block.begin + span.begin,
                     span.seconds);
    if (!span.module.empty()) write_field(json, "module", span.module);
    if (span.bytes > 0) {
      write_key(json, "bytes");
      write_number(json, span.bytes, 0);
    }
    write_field(json, "layer", layer);
    write_field(json, "micro_batch", block.batch);
    end_span_event(json);
  }
}

void write_folded(JsonWriter& json, const FoldedBatches& folded) {
  const std::string name =
      fmt::format("micro-batches {} to {}, as micro-batch 0", folded.first, folded.first + folded.count - 1);
  begin_span_event(json, kLayers, name, "folded", folded.begin, folded.seconds);
  write_field(json, "micro_batches", folded.count);
  end_span_event(json);
}

void write_memory_event(JsonWriter& json, double at, const BytesByGroup& parts) {
  begin_event(json, "C", "memory");
  write_time_field(json, "ts", at);
  write_key(json, "args");
  begin_object(json);
  for (size_t group = 0; group < kMemoryGroups; ++group)
    write_field(json, to_text(static_cast<MemoryGroup>(group)), parts[group]);
  end_object(json);
  end_object(json);
}

}  // namespace

bool render_trace(const StepPicture& picture, const Sink& sink) {
  JsonWriter json{.sink = &sink};
  begin_object(json);
  write_field(json, "displayTimeUnit", "ms");
  write_key(json, "traceEvents");
  begin_array(json);
  write_names(json, picture);
  for (const TimelineBlock& block : picture.timeline.blocks) write_block(json, picture.timeline, block);
  if (picture.timeline.folded.count > 0) write_folded(json, picture.timeline.folded);
  for (const MemoryInterval& interval : picture.intervals) write_memory_event(json, interval.begin, interval.parts);
  if (!picture.intervals.empty()) write_memory_event(json, picture.timeline.seconds, picture.intervals.back().parts);
  next_line(json, 0);
  end_array(json);
  end_object(json);
  return finish_json(json);
}

}  // namespace tpplan
