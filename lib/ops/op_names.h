// Names of operations: as tables list them, and those that write in place.
#pragma once

#include <string_view>

namespace tpplan {

// True where the name stands in a list, whose names stand between blanks.
[[nodiscard]] inline bool lists_op(std::string_view list, std::string_view name) {
  for (size_t at = list.find(name); at != std::string_view::npos; at = list.find(name, at + 1)) {
    const size_t end = at + name.size();
    if (at > 0 && list[at - 1] == ' ' && end < list.size() && list[end] == ' ') return true;
  }
  return false;
}

// True where a name says by a trailing `_` that its operation writes to its first operand.
[[nodiscard]] inline bool is_in_place(std::string_view name) {
  return !name.starts_with("__") && name.size() > 1 && name.ends_with('_');
}

// The name without that.
[[nodiscard]] inline std::string_view plain_op(std::string_view name) {
  return is_in_place(name) ? name.substr(0, name.size() - 1) : name;
}

}  // namespace tpplan
