#include "base/presence.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

namespace tpplan {
namespace {

Presence concluded(Presence presence, int asked) {
  presence.is_there = asked == 0;
  presence.error = asked == 0 || is_absence_error(errno) ? 0 : errno;
  return presence;
}

}  // namespace

bool is_absence_error(int error) {
  return error == ENOENT || error == ENOTDIR || error == EACCES || error == ELOOP || error == ENAMETOOLONG;
}

bool is_within(const std::filesystem::path& path, const std::filesystem::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end();
}

bool is_own(uid_t owner) {
  const uid_t user = geteuid();
  const char* caller = user == 0 ? std::getenv("SUDO_UID") : nullptr;
  return owner == user || (caller != nullptr && std::to_string(owner) == caller);
}

bool is_regular_file(const Presence& presence) { return presence.is_there && S_ISREG(presence.status.st_mode); }

Presence presence_of_name(const std::string& path) {
  Presence presence;
  const int asked = lstat(path.c_str(), &presence.status);
  return concluded(presence, asked);
}

Presence presence_of_file(const std::string& path) {
  Presence presence;
  const int asked = stat(path.c_str(), &presence.status);
  return concluded(presence, asked);
}

}  // namespace tpplan
