// The calls of collectives that a step makes under two manifests: which come, go, or get another size.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "manifest/manifest.h"

namespace tpplan {

// Calls that differ in the layer numbers of their modules only. Bytes are those of their inputs on rank 0; they
// saturate.
struct CallChange {
  bool backward = false;
  bool hidden = false;  // as in CollectiveCall
  CollectiveKind kind{};
  std::string axis;
  std::string module;                                             // path_pattern; the path itself where there is one
  std::vector<std::string_view> modules;                          // all of them, each once; views into the manifests
  std::vector<std::vector<int64_t>> shapes_before, shapes_after;  // of the inputs, each once
  std::string dtype;
  uint64_t before = 0, after = 0;
  uint64_t bytes_before = 0, bytes_after = 0;
};

struct CallsDiff {
  bool known_before = false, known_after = false;  // whether the manifests list the calls of a step
  uint64_t before = 0, after = 0;                  // how many there are
  uint64_t bytes_before = 0, bytes_after = 0;
  std::vector<CallChange> changes;  // where both are known: that come, go or have other inputs, forward first
};

[[nodiscard]] CallsDiff diff_calls(const Manifest& old_manifest, const Manifest& new_manifest);

}  // namespace tpplan
