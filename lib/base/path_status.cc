#include "base/path_status.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

namespace tpplan {
namespace {

PathStatus with_outcome(PathStatus found, int outcome) {
  found.exists = outcome == 0;
  found.error = outcome == 0 || is_absence_error(errno) ? 0 : errno;
  return found;
}

}  // namespace

bool is_absence_error(int error) {
  return error == ENOENT || error == ENOTDIR || error == EACCES || error == ELOOP || error == ENAMETOOLONG;
}

bool is_within(const std::filesystem::path& path, const std::filesystem::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end();
}

bool is_trusted_owner(uid_t owner) {
  const uid_t user = geteuid();
  const char* caller = user == 0 ? std::getenv("SUDO_UID") : nullptr;
  return owner == user || (caller != nullptr && std::to_string(owner) == caller);
}

bool is_regular_file(const PathStatus& found) { return found.exists && S_ISREG(found.status.st_mode); }

PathStatus lstat_path(const std::string& path) {
  PathStatus found;
  const int outcome = lstat(path.c_str(), &found.status);
  return with_outcome(found, outcome);
}

PathStatus stat_path(const std::string& path) {
  PathStatus found;
  const int outcome = stat(path.c_str(), &found.status);
  return with_outcome(found, outcome);
}

}  // namespace tpplan
