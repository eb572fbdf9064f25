// Which entry of a plan a comment belongs to.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/piece_reader.h"
#include "plan/plan_pieces.h"

namespace tpplan {

// Puts a comment, where there is one, at the end of the entry's line.
void set_trailing(PlanEntry& entry, std::string comment, size_t space);

void append_lines(std::vector<std::string>& target, const std::vector<GapLine>& lines);

// All comments of a gap without its blank lines.
void append_comments(std::vector<std::string>& target, const Gap& gap);

void strip_front_blank(std::vector<std::string>& lines);

// Gives what stands between an entry and what follows it on column `own` to whom it belongs: the comment on its line to
// the innermost entry that ends there; comment lines that are indented like the entries of a block that ends here to
// that block. Returns the lines that are left for what follows.
[[nodiscard]] std::vector<std::string> distribute(PlanEntry& previous, Gap gap, std::optional<size_t> own);

}  // namespace tpplan
