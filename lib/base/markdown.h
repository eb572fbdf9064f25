// Text in Markdown as GitHub and GitLab read it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tpplan {

// Returns an untrusted text as inline code that cannot end a table cell or become a tag, link, mention or emphasis.
// Every character with a meaning in Markdown becomes a numeric entity, invisible ones as in escape_for_terminal. A dash
// for an empty text.
[[nodiscard]] std::string markdown_code(std::string_view text);

// Returns a sentence with names in backticks as Markdown with code spans. As safe as markdown_code.
[[nodiscard]] std::string markdown_text(std::string_view text);

// The limits of a table: a GitHub comment or summary has at most 65,536 characters.
struct MarkdownLimits {
  size_t rows = 20, bytes = 7'000;
};

// Returns a table of cells of Markdown without line breaks; a column whose head begins with `#` is right-aligned. Rows
// beyond the limits are omitted and counted below the table.
[[nodiscard]] std::string markdown_table(std::span<const std::string_view> heads,
                                         const std::vector<std::vector<std::string>>& rows, MarkdownLimits limits = {});

}  // namespace tpplan
