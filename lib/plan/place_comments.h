// Assigns comments to entries of a plan.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/plan_syntax.h"
#include "plan/syntax_reader.h"

namespace tpplan {

// Puts a comment, if there is one, at the end of the entry's line.
void set_trailing_comment(PlanEntry& entry, std::string comment, size_t space);

void append_lines(std::vector<std::string>& target, const std::vector<TriviaLine>& lines);

// Appends the comments of a gap, without its blank lines.
void append_comments(std::vector<std::string>& target, const Trivia& gap);

void strip_leading_blanks(std::vector<std::string>& lines);

// Distributes the gap after an entry, before a next one at column `own`: the comment on the same line goes to the
// innermost entry that ends there; comment lines that are indented like the entries of a block that ends here go to
// that block. Returns the lines that belong to the next entry.
[[nodiscard]] std::vector<std::string> distribute_comments(PlanEntry& previous, Trivia gap, std::optional<size_t> own);

}  // namespace tpplan
