// Run files: `tpplan check --costs --run run.yaml`.
#pragma once

#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/source_file.h"
#include "diagnostics/diagnostics.h"
#include "topology/run.h"

namespace tpplan {

inline constexpr std::string_view kRunFormat = "tpplan.run/1";

// A run, and the places of the keys that its file has.
struct RunFile {
  Run run;
  std::vector<std::pair<std::string, Span>> keys;
};

// Returns the place of a key; none if the file does not have it.
[[nodiscard]] Span key_span(const RunFile& file, std::string_view key);

// Reads a run file. Reports TP9107 for an unknown key and for a value that a key does not accept; the run then keeps
// the default of that key. `recipes`: the names of cost/recipes.h.
[[nodiscard]] RunFile read_run(const SourceFile& file, std::span<const std::string_view> recipes,
                               Diagnostics& diagnostics);

// Returns the value of a key as run files write it; the default if the file does not have the key.
[[nodiscard]] std::string run_value(const Run& run, std::string_view key);

// Returns the keys of a run file in the order of its documentation, without `format`.
[[nodiscard]] std::span<const std::string_view> run_keys();

}  // namespace tpplan
