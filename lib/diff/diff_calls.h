// Compares the collective calls of a step in two manifests: added, removed and resized calls.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "manifest/manifest.h"

namespace tpplan {

// Calls that differ only in the layer numbers of their modules. Bytes are the inputs' bytes on rank 0; they saturate.
struct CallChange {
  bool backward = false;
  bool hidden = false;  // as in CollectiveCall
  CollectiveKind kind{};
  std::string axis;
  std::string module;                     // starred_path of the modules; the path if there is only one
  std::vector<std::string_view> modules;  // distinct paths, as views into the manifests
  std::vector<std::vector<int64_t>> shapes_before, shapes_after;  // distinct shapes of the inputs
  std::string dtype;
  uint64_t before = 0, after = 0;
  uint64_t bytes_before = 0, bytes_after = 0;
};

struct CallsDiff {
  bool known_before = false, known_after = false;  // true if the manifest lists the calls of a step
  uint64_t before = 0, after = 0;                  // numbers of calls
  uint64_t bytes_before = 0, bytes_after = 0;
  std::vector<CallChange> changes;  // added, removed and resized calls, forward first; empty unless both are known
};

[[nodiscard]] CallsDiff diff_calls(const Manifest& old_manifest, const Manifest& new_manifest);

}  // namespace tpplan
