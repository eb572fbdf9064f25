// The memory of rank 0, which holds the most, in a step of training or inference: terms with their formulas.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost/recipes.h"
#include "manifest/manifest.h"
#include "topology/run.h"

namespace tpplan {

// The parts that measure_inference excludes, with and without a cache.
inline constexpr std::string_view kCachedInferenceOmits = "temporary activations are not counted";
inline constexpr std::string_view kInferenceOmits = "temporary activations and caches are not counted";

struct MemoryTerm {
  std::string name;
  uint64_t bytes = 0;
  std::string formula;
  bool is_part = false;  // a part of the term before it, not added again
};

// The moment of a step at which rank 0 has the most memory.
struct MemoryPeak {
  uint64_t reserved = 0;          // what CUDA's caching allocator has reserved after the step
  std::string phase;              // forward | backward | optimizer
  std::string operation, module;  // empty if unknown
};

struct TrainingMemory {
  const Recipe* recipe = nullptr;
  std::vector<MemoryTerm> terms;
  uint64_t total = 0;                // of the known terms
  bool has_step = false;             // includes activations, in inference results; false if the model has no operations
  bool infer = false;                // without gradients, optimizer states and a loss
  bool has_cache = false;            // includes cached keys and values
  std::optional<MemoryPeak> peak{};  // of measure_peak: the terms are of that moment
  uint64_t capacity = 0;             // of the GPU; 0: the topology does not have it, or there is none
  bool overflow = false;             // a sum exceeds 64 bits: everything above is invalid
};

// Returns what has to fit into the GPU: what the allocator reserves; the sum of the tensors if the peak is unknown.
[[nodiscard]] inline uint64_t reserved_of(const TrainingMemory& memory) {
  return memory.peak ? memory.peak->reserved : memory.total;
}

// Returns the memory of inference: parameters, buffers, results and the cache. Excludes temporary activations.
// `results` are the bytes of the model's outputs on rank 0; absent if they are unknown. `cache`: bytes and formula of
// cached keys and values; absent without a cache.
[[nodiscard]] TrainingMemory measure_inference(const Manifest& manifest, std::optional<uint64_t> results,
                                               const std::optional<MemoryTerm>& cache = std::nullopt);

[[nodiscard]] TrainingMemory measure_training(const Manifest& manifest, const Recipe& recipe);

// Returns what a rank holds between the micro-batches of a run, by the definitions of measure_peak: parameters,
// optimizer states, gradients of earlier micro-batches. A manifest has no operations, so activations are not included,
// and a gradient of an embedding that torch leaves whole counts as sharded. Tensors are not rounded up to 512 bytes.
[[nodiscard]] TrainingMemory measure_between_batches(const Manifest& manifest, const Run& run);

}  // namespace tpplan
