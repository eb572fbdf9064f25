// Names of files as the repository that is checked knows them.
#pragma once

#include <string>

namespace tpplan {

// Relative to the root of the working folder's repository (the nearest folder with a `.git`); as it was given where
// there is no repository, and for what lies outside of it. Annotations on a line are put where this names a file.
[[nodiscard]] std::string path_in_repository(const std::string& name);

}  // namespace tpplan
