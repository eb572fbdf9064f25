#include "base/starred_path.h"

#include <algorithm>

#include "base/text.h"

namespace tpplan {

// Replaces only parts that are all digits, so `w1` and `w2` stay distinct. Accepts both separators, because a manifest
// does not store its framework.
std::string starred_path(std::string_view path) {
  std::string out;
  for (size_t i = 0; i < path.size();) {
    const size_t end = std::min(path.find_first_of("./", i), path.size());
    const std::string_view atom = path.substr(i, end - i);
    out += is_digits(atom) ? "*" : atom;
    if (end < path.size()) out += path[end];
    i = end + 1;
  }
  return out;
}

}  // namespace tpplan
