#include "cost/decode_time.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "cost/link_seconds.h"

namespace tpplan {
namespace {

constexpr double kLaunchSeconds = 5e-6;  // of a kernel without CUDA graphs

// Returns the bytes of all weights but embeddings that no linear reads, too.
double weight_bytes(const DecodeSetting& s) {
  double bytes = 0;
  for (const StepParameter& parameter : s.parameters) {
    const bool is_looked_up = parameter.module != kNone && !parameter.is_shared &&
                              s.model.modules[parameter.module].kind == ModuleKind::Embedding;
    if (!is_looked_up) bytes += parameter.elements * static_cast<double>(byte_size(parameter.dtype, 1));
  }
  return bytes;
}

double tokens_of(const DecodeSetting& s) {
  return static_cast<double>(std::max<int64_t>(s.run.batch * s.run.sequence, 1));
}

struct DecodeCounts {
  double cached = 0;  // bytes of the cache for each token of a sequence
  double kernels = 0;
};

DecodeCounts decode_counts(const DecodeSetting& s) {
  DecodeCounts counts;
  for (const LayerWork& layer : s.work.layers) {
    const auto count = static_cast<double>(layer.count);
    counts.kernels += count * static_cast<double>(layer.kernels.size());
    for (const Kernel& kernel : layer.kernels) counts.cached += count * kernel.cached / tokens_of(s);
  }
  return counts;
}

double decode_calls(const DecodeSetting& s, const Topology& topology, double speed) {
  double seconds = 0;
  for (const LayerWork& layer : s.work.layers) {
    for (const WaitedCall& call : layer.calls) {
      if (call.backward) continue;
      AxisPath path = axis_path(topology, s.mesh, call.axis);
      path.bandwidth *= speed;
      const double bytes = call.bytes / static_cast<double>(std::max<int64_t>(s.run.sequence, 1));
      seconds += static_cast<double>(layer.count) * ring_seconds(call.kind, bytes, s.mesh.axes[call.axis].size, path);
    }
  }
  return seconds;
}

}  // namespace

std::vector<MissingFigure> missing_decode_figures(const Topology& topology) {
  std::vector<MissingFigure> missing;
  if (topology.gpu.memory_bandwidth <= 0) missing.push_back({"memory_bandwidth", "weights and cache"});
  if (topology.gpu.memory_efficiency <= 0) missing.push_back({"memory_efficiency", "weights and cache"});
  return missing;
}

PricedTime decode_seconds(const DecodeSetting& s, const Topology& topology, const AssumptionScale& scale) {
  const double memory =
      topology.gpu.memory_bandwidth * topology.gpu.memory_efficiency * scale[static_cast<size_t>(Assumption::Memory)];
  const DecodeCounts counts = decode_counts(s);
  const double weights = weight_bytes(s);
  const double cache = counts.cached * static_cast<double>(s.run.batch) * static_cast<double>(s.context);
  const double launches = s.run.compiled == Compiled::Whole ? 0 : counts.kernels * kLaunchSeconds;
  const double read = (weights + cache) / memory;
  const double calls = decode_calls(s, topology, scale[static_cast<size_t>(Assumption::Links)]);
  const TimeTerm terms[] = {
      {"weights", weights / memory, fmt::format("{:.4g} B read once / memory", weights)},
      {"keys and values", cache / memory,
       fmt::format("{:.4g} B a token x {} sequences x {} tokens / memory", counts.cached, s.run.batch, s.context)},
      {"launches", std::max(0.0, launches - read),
       fmt::format("{:g} kernels x {:g} us, the part that outlasts the memory", counts.kernels, kLaunchSeconds * 1e6)},
      {"collectives of model axes", calls, "waited for: ring passes x ((n - 1) / n x payload / bandwidth + latencies)"},
  };
  PricedTime step;
  for (const TimeTerm& term : terms) {
    if (term.seconds <= 0) continue;
    step.seconds += term.seconds;
    step.terms.push_back(term);
  }
  return step;
}

}  // namespace tpplan
