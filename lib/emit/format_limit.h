// Facts about a parameter that an export format cannot express.
#pragma once

#include <span>
#include <string_view>

#include "base/write_file.h"
#include "manifest/manifest.h"

namespace tpplan {

// A fact about a parameter that a format cannot express. `what` completes the sentence "FORMAT cannot express that ..."
// and has `{}` for the parameter's path; `instead` describes what a lossy export writes.
struct FormatLimit {
  bool (*exceeds_limit)(const ParamLayout& layout, const Mesh& mesh);
  std::string_view what;
  std::string_view instead;
};

}  // namespace tpplan
