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

double kernels_of(const StepWork& work) {
  double kernels = 0;
  for (const LayerWork& layer : work.layers)
    kernels += static_cast<double>(layer.count) * static_cast<double>(layer.kernels.size());
  return kernels;
}

double decode_calls(const DecodeSetting& s, const Topology& topology, double speed) {
  double seconds = 0;
  for (const LayerWork& layer : s.work.layers) {
    for (const BlockingCall& call : layer.calls) {
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

KvCache kv_cache(const StepWork& work, const Run& run, int64_t context, std::optional<DType> dtype) {
  KvCache cache{.batch = run.batch, .context = context};
  const auto tokens = static_cast<double>(std::max<int64_t>(run.batch * run.sequence, 1));
  for (const LayerWork& layer : work.layers) {
    for (const Kernel& kernel : layer.kernels) {
      const double narrower =
          dtype ? static_cast<double>(dtypes()[*dtype].bits) / static_cast<double>(dtypes()[kernel.dtype].bits) : 1;
      cache.token_bytes += static_cast<double>(layer.count) * kernel.cached * narrower / tokens;
    }
  }
  return cache;
}

double cache_bytes(const KvCache& cache) {
  return cache.token_bytes * static_cast<double>(cache.batch) * static_cast<double>(cache.context);
}

std::string cache_formula(const KvCache& cache) {
  return fmt::format("{:.4g} B a token x {} sequences x {} tokens", cache.token_bytes, cache.batch, cache.context);
}

std::vector<MissingFigure> missing_decode_figures(const Topology& topology) {
  std::vector<MissingFigure> missing;
  if (topology.gpu.memory_bandwidth <= 0) missing.push_back({"memory_bandwidth", "weights and cache"});
  if (topology.gpu.memory_efficiency <= 0) missing.push_back({"memory_efficiency", "weights and cache"});
  return missing;
}

PricedTime decode_seconds(const DecodeSetting& s, const Topology& topology, const AssumptionScale& scale) {
  const double memory =
      topology.gpu.memory_bandwidth * topology.gpu.memory_efficiency * scale[static_cast<size_t>(Assumption::Memory)];
  const double weights = weight_bytes(s), cache = cache_bytes(s.cache), kernels = kernels_of(s.work);
  const double launches = s.run.compiled == Compiled::FullStep ? 0 : kernels * kLaunchSeconds;
  const double read = (weights + cache) / memory;
  const double calls = decode_calls(s, topology, scale[static_cast<size_t>(Assumption::Links)]);
  const TimeTerm terms[] = {
      {"weights", weights / memory, fmt::format("{:.4g} B read once / memory", weights)},
      {"keys and values", cache / memory, cache_formula(s.cache) + " / memory"},
      {"launches", std::max(0.0, launches - read),
       fmt::format("{:g} kernels x {:g} us, the part that outlasts the memory", kernels, kLaunchSeconds * 1e6)},
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
