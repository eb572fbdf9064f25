// Checks if a file exists. Distinguishes absence from a failed check: a caller that mistakes a failure for absence
// would ignore an existing file, or overwrite it.
#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <string>

namespace tpplan {

struct PathStatus {
  bool exists = false;
  int error = 0;          // errno if it is unknown whether the file exists
  struct stat status {};  // of the file
};

// lstat_path checks the name itself, even if it is a dangling link; stat_path follows links.
[[nodiscard]] PathStatus lstat_path(const std::string& path);
[[nodiscard]] PathStatus stat_path(const std::string& path);

// True if the file exists and is regular.
[[nodiscard]] bool is_regular_file(const PathStatus& found);

// True if the path is the folder or below it. @pre both are canonical
[[nodiscard]] bool is_within(const std::filesystem::path& path, const std::filesystem::path& folder);

// True if git would accept a repository of this owner: the effective user, and for root also the user who called sudo.
[[nodiscard]] bool is_trusted_owner(uid_t owner);

// True for errno values that mean that the name does not exist for this process, also in a folder that it must not
// search.
[[nodiscard]] bool is_absence_error(int error);

}  // namespace tpplan
