// A plan file in its canonical layout: the same plan, the same comments, one way to write it.
#pragma once

#include <string>

#include "base/source_file.h"
#include "diagnostics/diagnostics.h"

namespace tpplan {

// Columns that a line of a collection in brackets may take; a longer one is written one entry a line.
inline constexpr size_t kPlanWidth = 120;

// Writes `file` anew into `formatted`: known keys in the order of plan_key_rank(), two spaces a level, one rule a line,
// the options of a rule in braces where they fit and hold no comment, keys in double quotes where they need any, one
// blank line at most, LF, one line break at the end. Every comment, anchor and alias is kept, comments at what they
// stand above or beside; those before the first key stay at the top, those behind the last one at the end.
//
// The result is read again and compared: it is the same YAML tree, the same plan and the same comments, or it is not
// given out. Reports what keeps a file from being read (as read_plan does) and what would not survive: texts in blocks
// or over several lines, pairs without braces in a list, directives (TP1011). Returns false after any of these. Plans
// whose content is wrong (exit status 1) are formatted all the same.
[[nodiscard]] bool format_plan(const SourceFile& file, std::string& formatted, Diagnostics& diagnostics);

}  // namespace tpplan
