// The products that a manifest's modules stand for, each kind of them once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "manifest/manifest.h"
#include "run/module_weights.h"

namespace tpplan {

// Modules whose weight and boundary agree: one product stands for all of them.
struct ModuleProduct {
  std::string path, pattern;  // the first module; all of them, numbers as `*`
  uint64_t count = 0;
  ModuleWeight weight;
  const ModuleLayout* layout = nullptr;
};

// In the manifest's order: modules with a boundary and a weight.
[[nodiscard]] std::vector<ModuleProduct> list_products(const Manifest& manifest);

// "[Shard(0), Partial(sum)]"
[[nodiscard]] std::string layout_text(const std::vector<Placement>& placements);

}  // namespace tpplan
