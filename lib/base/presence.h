// Whether a file is there, told apart from a system that does not say: who takes a failed look for absence goes on
// without a file that is there, or over it.
#pragma once

#include <sys/stat.h>

#include <string>

namespace tpplan {

struct Presence {
  bool is_there = false;
  int error = 0;          // of the system, which does not say whether it is there
  struct stat status {};  // of what is there
};

// Of the name itself, which may be a link, wherever it leads; of the file that it leads to.
[[nodiscard]] Presence presence_of_name(const std::string& path);
[[nodiscard]] Presence presence_of_file(const std::string& path);

// Whether a regular file is there.
[[nodiscard]] bool is_regular_file(const Presence& presence);

// The errors that say that nothing can be reached by a name: behind a folder that may not be searched, too.
[[nodiscard]] bool says_absent(int error);

}  // namespace tpplan
