// The matmuls of a manifest's modules, each distinct one once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "exec/run/module_weights.h"
#include "manifest/manifest.h"

namespace tpplan {

// A group of modules with the same weight layout and boundary, which share one matmul test.
struct ModuleMatmul {
  std::string path, pattern;  // the first module; all of them: "layers.{0..31}.w1"
  uint64_t count = 0;
  ModuleWeight weight;
  const ModuleLayout* layout = nullptr;
};

// Returns the groups of modules that have a boundary and a weight, in manifest order.
[[nodiscard]] std::vector<ModuleMatmul> list_matmuls(const Manifest& manifest);

// True if a module that contains `path` reduces a partial value over the axis: its boundary declares an output, or the
// gradient of an input, as Partial there.
[[nodiscard]] bool is_reduced_above(const Manifest& manifest, std::string_view path, AxisId axis, bool gradient);

// Returns text such as "[Shard(0), Partial(sum)]".
[[nodiscard]] std::string layout_text(const std::vector<Placement>& placements);

}  // namespace tpplan
