// The memory of rank 0, which holds the most, in a step of training or inference: terms with their formulas.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost/recipes.h"
#include "manifest/manifest.h"

namespace tpplan {

// The parts that measure_inference excludes.
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
  uint64_t capacity = 0;          // of the GPU; 0: the topology does not have it, or there is none
};

struct TrainingMemory {
  const Recipe* recipe = nullptr;
  std::vector<MemoryTerm> terms;
  uint64_t total = 0;                // of the known terms
  bool has_step = false;             // includes activations, in inference results; false if the model has no operations
  bool infer = false;                // without gradients, optimizer states and a loss
  std::optional<MemoryPeak> peak{};  // of measure_peak: the terms are of that moment
  bool overflow = false;             // a sum exceeds 64 bits: everything above is invalid
};

// Returns the memory of inference: parameters, buffers and results. Excludes temporary activations and caches.
// `results` are the bytes of the model's outputs on rank 0; absent if they are unknown.
[[nodiscard]] TrainingMemory measure_inference(const Manifest& manifest, std::optional<uint64_t> results);

[[nodiscard]] TrainingMemory measure_training(const Manifest& manifest, const Recipe& recipe);

}  // namespace tpplan
