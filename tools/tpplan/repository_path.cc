#include "repository_path.h"

#include <filesystem>

#include "base/path_status.h"

namespace tpplan {
namespace {

namespace fs = std::filesystem;

// Returns the root of the repository that contains a folder; empty without a repository.
fs::path repository_root(const fs::path& folder) {
  for (fs::path at = folder;; at = at.parent_path()) {
    if (lstat_path((at / ".git").string()).exists) return at;
    if (at == at.parent_path()) return {};
  }
}

}  // namespace

std::string path_in_repository(const std::string& name) {
  std::error_code error;
  const fs::path here = fs::current_path(error);
  if (error || name.empty() || name == "-") return name;
  const fs::path root = repository_root(here);
  if (root.empty()) return name;
  const fs::path relative = (here / name).lexically_normal().lexically_relative(root);
  if (relative.empty() || *relative.begin() == "..") return name;
  return relative.generic_string();
}

}  // namespace tpplan
