// Formats a plan file: the same plan and comments in canonical layout.
#pragma once

#include <string>

#include "base/source_file.h"
#include "diagnostics/diagnostics.h"

namespace tpplan {

// Formats `file` into `formatted`: known keys in the order of plan_key_rank(), two spaces of indentation, one rule on
// each line, the options of a rule in braces if they fit and have no comment, keys in double quotes if they need
// quotes, at most one blank line, LF, one line break at the end. Preserves every comment, anchor and alias; comments
// stay with the entry that they are above or next to, those before the first key at the top, those after the last one
// at the end.
//
// Reads the result again and returns it only if it has the same YAML tree, plan and comments. Reports errors that make
// a file unreadable (as read_plan does) and YAML that it cannot preserve: block scalars, multi-line scalars, pairs
// without braces in a list, directives (TP1011). Returns false after any of these. It also formats plans with wrong
// content (exit status 1).
[[nodiscard]] bool format_plan(const SourceFile& file, std::string& formatted, Diagnostics& diagnostics);

}  // namespace tpplan
