// What rank 0, which holds the most, has in memory in a training step: each number with how it comes about.
#pragma once

#include <string>
#include <vector>

#include "manifest/manifest.h"
#include "measure/recipes.h"

namespace tpplan {

struct MemoryTerm {
  std::string name;
  uint64_t bytes = 0;
  std::string formula;
  bool is_part = false;  // of the term before it: not added once more
};

struct TrainingMemory {
  const Recipe* recipe = nullptr;
  std::vector<MemoryTerm> terms;
  uint64_t total = 0;     // of what is known
  bool has_step = false;  // activations are among them; else nobody knows the operations
  bool overflow = false;  // a sum leaves 64 bits: nothing above is to be used
};

[[nodiscard]] TrainingMemory measure_training(const Manifest& manifest, const Recipe& recipe);

}  // namespace tpplan
