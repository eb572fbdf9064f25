// Text in Markdown as GitHub and GitLab read it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tpplan {

// A name or another text of somebody else, shown as code: it ends no cell of a table, and is no tag, link, mention or
// emphasis. Every character that Markdown could take for its own is written as its number; what a person does not see
// as escape_for_terminal writes it. A dash for an empty text.
[[nodiscard]] std::string markdown_code(std::string_view text);

// A sentence with names between backticks, which are shown as code. Safe as markdown_code is, whatever stands where.
[[nodiscard]] std::string markdown_text(std::string_view text);

// What is shown of a table: a comment or summary of GitHub has 65,536 characters in all.
struct MarkdownRoom {
  size_t rows = 20, bytes = 7'000;
};

// A table, each of whose cells is Markdown without a line break; a column whose head begins with `#` holds numbers.
// Rows that have no room are counted below it.
[[nodiscard]] std::string markdown_table(std::span<const std::string_view> heads,
                                         const std::vector<std::vector<std::string>>& rows, MarkdownRoom room = {});

}  // namespace tpplan
