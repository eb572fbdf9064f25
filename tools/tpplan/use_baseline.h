// `check --baseline FILE`: known findings are taken out of what is reported; `--write-baseline` makes them known.
#pragma once

#include <set>
#include <string>

#include "commands.h"
#include "render/baseline.h"

namespace tpplan {

struct BaselineUse {
  std::string name;  // as people know it; empty: there is no baseline
  std::string path;  // from the root: the working directory may change
  bool is_written = false;
  Baseline known;
  std::set<std::string, std::less<>> met;  // fingerprints of entries whose finding is still there
  FindingCounts taken;                     // findings that were taken out
  bool is_whole = true;                    // no known error has kept phases from running
};

// Reads the baseline that the arguments name, unless it is written; kExitFine, or a status after saying why not.
[[nodiscard]] int open_baseline(const CheckArguments& arguments, const CommonArguments& common, BaselineUse& use);

// Takes known findings out of the session's; where the baseline is written, all about what inputs say are known.
void take_known(BaselineUse& use, Session& session);

// Writes the baseline where that was asked for, and nothing else was found. The line about it is added to `said`; the
// exit status, of which `status` is what was found otherwise.
[[nodiscard]] int close_baseline(const BaselineUse& use, int status, std::string& said);

}  // namespace tpplan
