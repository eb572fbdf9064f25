#include "manifest/path_pattern.h"

#include <algorithm>

namespace tpplan {

// Whole atoms only, so that `w1` and `w2` stay apart. Both separators count, for a manifest does not say its framework.
std::string path_pattern(std::string_view path) {
  std::string out;
  for (size_t i = 0; i < path.size();) {
    const size_t end = std::min(path.find_first_of("./", i), path.size());
    const std::string_view atom = path.substr(i, end - i);
    const bool number = !atom.empty() && atom.find_first_not_of("0123456789") == std::string_view::npos;
    out += number ? "*" : atom;
    if (end < path.size()) out += path[end];
    i = end + 1;
  }
  return out;
}

}  // namespace tpplan
