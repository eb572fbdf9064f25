// Baselines: findings that were there when somebody began to look, and that are neither shown nor counted until they
// are gone. A finding is known by its fingerprint (render_parts.h), which stays when lines above it come and go.
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

struct KnownFinding {
  std::string fingerprint;
  std::string code, file, message;  // for people: nothing is compared with them
};

struct Baseline {
  std::vector<KnownFinding> findings;  // no two with one fingerprint
};

// Reads what to_json wrote; false after reporting what is wrong (TP1003, TP3002 to TP3004).
[[nodiscard]] bool read_baseline(const SourceFile& file, Baseline& baseline, Diagnostics& diagnostics);

// In the order of files, codes and messages, an entry a line, so that versions of it can be compared.
[[nodiscard]] std::string to_json(const Baseline& baseline);

// The findings about what inputs say. One that keeps an input from being read is never known: nothing behind it is
// judged.
void add_findings(Baseline& baseline, const Diagnostics& diagnostics, const Sources& sources);

// Takes what the baseline knows out of the findings, and adds its fingerprints to `met`. What was taken.
[[nodiscard]] FindingCounts remove_known(Diagnostics& diagnostics, const Sources& sources, const Baseline& baseline,
                                         std::set<std::string, std::less<>>& met);

}  // namespace tpplan
