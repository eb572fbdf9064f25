// The weights of linear and embedding modules, by path.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/keyed_hash.h"
#include "manifest/manifest.h"

namespace tpplan {

// y = x W over the dims called "in" and "out"; an embedding is the same with one-hot rows as x.
struct ModuleWeight {
  const ManifestParam* param = nullptr;
  size_t in = 0, out = 0;  // dims of the weight
  bool is_embedding = false;
};

// Returns by module path the nonempty two-dimensional parameter of each linear or embedding module, the first one if it
// has several.
[[nodiscard]] TextMap<std::string_view, ModuleWeight> module_weights(const Manifest& manifest);

}  // namespace tpplan
