// `check --watch`: repeats the command whenever one of its input files changes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "commands.h"

namespace tpplan {

// Returns the files that a check reads, from its arguments and its settings. `config` is the settings file (empty: the
// nearest one); `no_config` disables settings.
[[nodiscard]] std::vector<std::string> watched_inputs(const CheckArguments& arguments, const std::string& config,
                                                      bool no_config);

// Forks a process for each check, once at the start and after each change. Returns true in the child, which must run
// the check. The parent waits for changes until a signal ends it. In the parent it returns false, with the exit status,
// if it cannot fork, has no inputs, or standard output was closed.
[[nodiscard]] bool run_at_each_change(const std::function<std::vector<std::string>()>& inputs, int& status);

}  // namespace tpplan
