// A YAML syntax error in human-readable words, with the edits that fix it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tpplan {

// The replacement of a range of the text.
struct YamlEdit {
  size_t offset = 0, length = 0;
  std::string text;
};

struct YamlError {
  size_t offset = 0, length = 1;
  std::string message;
  std::string help;
  std::vector<YamlEdit> edits;  // the fix; empty if there is more than one
};

}  // namespace tpplan
