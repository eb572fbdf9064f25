#include "base/presence.h"

#include <cerrno>

namespace tpplan {
namespace {

Presence concluded(Presence presence, int asked) {
  presence.is_there = asked == 0;
  presence.error = asked == 0 || says_absent(errno) ? 0 : errno;
  return presence;
}

}  // namespace

bool says_absent(int error) {
  return error == ENOENT || error == ENOTDIR || error == EACCES || error == ELOOP || error == ENAMETOOLONG;
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
