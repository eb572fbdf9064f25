// Plan file -> its pieces.
#pragma once

#include "base/source_file.h"
#include "diagnostics/diagnostics.h"
#include "plan/plan_pieces.h"
#include "syntax/yaml_tree.h"

namespace tpplan {

// `tree` is the file's, a map. Reports what the formatter cannot keep (TP1011) and returns false after it.
[[nodiscard]] bool read_pieces(const SourceFile& file, const YamlTree& tree, PlanPieces& pieces,
                               Diagnostics& diagnostics);

}  // namespace tpplan
