// `check --baseline FILE` hides known diagnostics; `--write-baseline` writes the current ones to the file.
#pragma once

#include <set>
#include <string>

#include "commands.h"
#include "render/baseline.h"

namespace tpplan {

struct BaselineUse {
  std::string name;  // name for messages; empty without a baseline
  std::string path;  // absolute, because the working directory can change
  bool is_written = false;
  Baseline known;
  std::set<std::string, std::less<>> still_reported;  // fingerprints of entries whose diagnostic still exists
  DiagnosticCounts taken;                             // hidden diagnostics
  bool is_checked = true;                             // false if a hidden error stopped a check
};

// Reads the baseline of the arguments, or checks that it can be written. Returns kExitFine, or another exit status
// after reporting an error.
[[nodiscard]] int prepare_baseline(const CheckArguments& arguments, const CommonArguments& common, BaselineUse& use);

// Returns the filter for the check; empty while the baseline is written.
[[nodiscard]] KnownFilter baseline_filter(const BaselineUse& use);

// Removes known diagnostics from the session. Reports TP4013 if one of them is an error that stopped the check. If the
// baseline is written, first adds all diagnostics about the content of inputs to it.
void take_known(BaselineUse& use, Session& session);

// Writes the baseline if requested and `status`, the exit status of the other diagnostics, is kExitFine. Appends lines
// about the baseline to `note`. Returns the exit status.
[[nodiscard]] int finish_baseline(const BaselineUse& use, int status, std::string& note);

}  // namespace tpplan
