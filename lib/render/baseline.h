// Baselines: known diagnostics, which are neither shown nor counted. A diagnostic is identified by its fingerprint
// (render_parts.h), which does not change when lines are added or removed above it.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/source_file.h"
#include "diagnostics/diagnostics.h"
#include "render/render.h"

namespace tpplan {

inline constexpr std::string_view kBaselineFormat = "tpplan.baseline/1";
inline constexpr uint64_t kMaxBaselineBytes = uint64_t{64} << 20;

struct BaselineEntry {
  std::string fingerprint;
  std::string code, file, message;  // human-readable only, not compared
  std::string module;               // path with stars for its numbers; empty for none
};

struct Baseline {
  std::vector<BaselineEntry> findings;  // with unique fingerprints
};

// Reads a file that to_json wrote. Returns false after reporting errors (TP1003, TP3002 to TP3004).
[[nodiscard]] bool read_baseline(const SourceFile& file, Baseline& baseline, Diagnostics& diagnostics);

// Returns the baseline as JSON, one entry per line, sorted by file, code and message. Versions of it can be diffed.
[[nodiscard]] std::string to_json(const Baseline& baseline);

// Adds the diagnostics about the content of the inputs to the baseline. A diagnostic about an unreadable input is never
// added, because it prevents the later checks.
void add_diagnostics(Baseline& baseline, const Diagnostics& diagnostics, const Sources& sources);

// Returns a filter that is true for diagnostics with a code and message of the baseline, at any location; empty for an
// empty baseline.
[[nodiscard]] KnownFilter baseline_filter(const Baseline& baseline);

// Removes the diagnostics that are in the baseline and returns them. Adds the fingerprints of these to `met`. An error
// can stop the walk, and heuristics then check the modules that it did not reach. So heuristic diagnostics are also
// removed if the baseline has a diagnostic of the walk about the same module.
[[nodiscard]] Diagnostics remove_known(Diagnostics& diagnostics, const Sources& sources, const Baseline& baseline,
                                       std::set<std::string, std::less<>>& met);

}  // namespace tpplan
