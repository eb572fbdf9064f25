#include "cost/memory_log.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "sharding/dtype.h"

namespace tpplan {
namespace {

constexpr uint64_t kGranule = 512;  // of CUDA's caching allocator, and of MemTracker

constexpr std::string_view kTensorUseNames[] = {"parameters",
                                                "master weights",
                                                "optimizer state",
                                                "gradients",
                                                "gradient buckets",
                                                "tokens",
                                                "buffers",
                                                "gathered weights",
                                                "all_gather outputs",
                                                "reduce_scatter inputs",
                                                "unreduced gradients",
                                                "saved activations",
                                                "logits and loss",
                                                "activation gradients",
                                                "optimizer temporaries"};
static_assert(std::size(kTensorUseNames) == static_cast<size_t>(TensorUse::Temporary) + 1);

constexpr std::string_view kPhaseNames[] = {"forward", "backward", "optimizer"};
static_assert(std::size(kPhaseNames) == static_cast<size_t>(StepPhase::Optimizer) + 1);

uint64_t elements_of_part(const ShardCount& count, bool is_gathered, int64_t ranks) {
  if (count.rows == 0) return count.elements;
  const auto n = static_cast<uint64_t>(ranks);
  return count.elements / count.rows * ((count.rows + n - 1) / n * (is_gathered ? n : 1));
}

}  // namespace

uint64_t allocated_bytes(uint64_t bytes) {
  return bytes > kMostInTotal - kGranule ? kMostInTotal : (bytes + kGranule - 1) / kGranule * kGranule;
}

uint64_t elements_at(const MemoryLog& log, uint32_t id, int64_t ranks) {
  const ShardCount& count = log.counts[id];
  if (count.parts.empty()) return elements_of_part(count, count.is_gathered, ranks);
  uint64_t sum = 0;
  for (const uint32_t part : count.parts) sum += elements_of_part(log.counts[part], count.is_gathered, ranks);
  return sum;
}

uint64_t shard_bytes(uint64_t elements, double each) {
  return static_cast<uint64_t>(std::ceil(static_cast<double>(elements) * each));
}

std::vector<StagedSpan> stages_at(const MemoryLog& log, int64_t ranks) {
  std::vector<uint64_t> elements(log.counts.size());
  for (uint32_t count = 0; count < elements.size(); ++count) elements[count] = elements_at(log, count, ranks);
  std::vector<StagedSpan> spans;
  int64_t buffers = 0;
  for (size_t i = 0, change = 0; i < log.spans.size(); ++i) {
    StagedSpan span{.phase = log.spans[i].phase, .layer = log.spans[i].layer, .stages = {}};
    span.stages.push_back({.peak = 0, .buffers = buffers});
    for (; change < log.ends[i]; ++change) {
      const LoggedChange& c = log.changes[change];
      int64_t& peak = span.stages.back().peak;
      peak = std::max(peak, span.end + c.peak);
      span.end += c.end;
      if (c.size.count == kNoCount) continue;
      const auto bytes = static_cast<int64_t>(allocated_bytes(shard_bytes(elements[c.size.count], c.size.bytes)));
      const int64_t added = c.frees ? -bytes : bytes;
      if (c.size.buffer == UnitBuffer::None) {
        span.end += added;
        peak = std::max(peak, span.end);
        continue;
      }
      buffers += added;
      span.stages.push_back({c.size.buffer, c.frees, bytes, span.end, buffers});
    }
    spans.push_back(std::move(span));
  }
  return spans;
}

uint64_t peak_of(const std::vector<StagedSpan>& spans) {
  int64_t level = 0, peak = 0;
  for (const StagedSpan& span : spans) {
    for (const SpanStage& stage : span.stages) peak = std::max(peak, level + stage.peak + stage.buffers);
    level += span.end;
  }
  return static_cast<uint64_t>(peak);
}

std::string_view to_text(TensorUse as) { return kTensorUseNames[static_cast<size_t>(as)]; }
std::string_view to_text(StepPhase phase) { return kPhaseNames[static_cast<size_t>(phase)]; }

}  // namespace tpplan
