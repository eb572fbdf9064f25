// `check --watch`: the command runs again whenever a file that it reads is another one than before.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "commands.h"

namespace tpplan {

// What a check reads, by its arguments and the settings that it would take: `config` names their file, "" for the
// nearest, unless there are to be none.
[[nodiscard]] std::vector<std::string> watched_inputs(const CheckArguments& arguments, const std::string& config,
                                                      bool no_config);

// Forks for each run: true in the process that is to do it, once at first and again after each change. The process that
// was started waits, says so on standard error, and goes on until a signal ends it; false where it cannot, or nobody
// reads standard output any more, with the exit status.
[[nodiscard]] bool run_at_each_change(const std::function<std::vector<std::string>()>& inputs, int& status);

}  // namespace tpplan
