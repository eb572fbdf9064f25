#include "plan/place_comments.h"

namespace tpplan {
namespace {

bool is_open_block(const PlanNode& piece) {
  return piece.kind != SyntaxKind::Scalar && !piece.is_flow && !piece.entries.empty();
}

}  // namespace

void set_trailing_comment(PlanEntry& entry, std::string comment, size_t space) {
  if (comment.empty()) return;
  // If the entry has two trailing comments, the first one goes above it.
  if (!entry.trailing.empty()) entry.leading.push_back(std::move(entry.trailing));
  entry.trailing = std::move(comment);
  entry.trailing_space = space;
}

void append_lines(std::vector<std::string>& target, const std::vector<TriviaLine>& lines) {
  for (const TriviaLine& line : lines) target.push_back(line.text);
}

void append_comments(std::vector<std::string>& target, const Trivia& gap) {
  if (!gap.beside.empty()) target.push_back(gap.beside);
  for (const TriviaLine& line : gap.lines) {
    if (!line.text.empty()) target.push_back(line.text);
  }
}

void strip_leading_blanks(std::vector<std::string>& lines) {
  if (!lines.empty() && lines[0].empty()) lines.erase(lines.begin());
}

// From the innermost block that ends here outwards, a line goes to the first one whose column is not to its right,
// together with the blank lines before it. `depth` only decreases: no later line belongs further inside.
std::vector<std::string> distribute_comments(PlanEntry& previous, Trivia gap, std::optional<size_t> own) {
  std::vector<PlanNode*> blocks;
  PlanEntry* last = &previous;
  for (; is_open_block(last->value); last = &last->value.entries.back()) blocks.push_back(&last->value);
  set_trailing_comment(*last, std::move(gap.beside), gap.space_before_comment);
  size_t depth = blocks.size();
  size_t taken = 0;
  for (size_t i = 0; i < gap.lines.size(); ++i) {
    if (gap.lines[i].text.empty()) continue;
    while (depth > 0 && (blocks[depth - 1]->column > gap.lines[i].column || (own && blocks[depth - 1]->column <= *own)))
      --depth;
    if (depth == 0) break;
    for (; taken <= i; ++taken) blocks[depth - 1]->footer.push_back(gap.lines[taken].text);
  }
  gap.lines.erase(gap.lines.begin(), gap.lines.begin() + static_cast<ptrdiff_t>(taken));
  std::vector<std::string> rest;
  append_lines(rest, gap.lines);
  return rest;
}

}  // namespace tpplan
