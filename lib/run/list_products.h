// The products that a manifest's modules stand for, each kind of them once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "manifest/manifest.h"
#include "run/module_weights.h"

namespace tpplan {

// Modules whose weight and boundary agree: one product stands for all of them.
struct ModuleProduct {
  std::string path, pattern;  // the first module; all of them: "layers.{0..31}.w1"
  uint64_t count = 0;
  ModuleWeight weight;
  const ModuleLayout* layout = nullptr;
};

// In the manifest's order: modules with a boundary and a weight.
[[nodiscard]] std::vector<ModuleProduct> list_products(const Manifest& manifest);

// True when a module around `path` takes a sum over the axis that is open there: an output, or the gradient of an
// input, that is Partial where it comes to that module's boundary.
[[nodiscard]] bool is_closed_above(const Manifest& manifest, std::string_view path, AxisId axis, bool gradient);

// "[Shard(0), Partial(sum)]"
[[nodiscard]] std::string layout_text(const std::vector<Placement>& placements);

}  // namespace tpplan
