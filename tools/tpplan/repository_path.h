// Converts file names to paths in the repository.
#pragma once

#include <string>

namespace tpplan {

// Returns a path relative to the root of the working directory's repository (the nearest folder with a `.git`), as CI
// systems need it for annotations. Returns `name` unchanged without a repository or for a file outside of it.
[[nodiscard]] std::string path_in_repository(const std::string& name);

}  // namespace tpplan
