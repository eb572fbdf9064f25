#include "base/markdown.h"

#include <spdlog/fmt/fmt.h>

#include "base/text.h"

namespace tpplan {
namespace {

bool is_markdown_word(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
         static_cast<unsigned char>(c) > 127;
}

// Returns `shown` with a numeric entity for every character that has a meaning in Markdown.
std::string as_numbers(std::string_view shown) {
  std::string out;
  for (size_t at = 0; at < shown.size(); ++at) {
    const char c = shown[at];
    // Inside a word `_` is no emphasis, and names are full of it.
    const bool is_inner = c == '_' && at > 0 && at + 1 < shown.size() && is_markdown_word(shown[at - 1]) &&
                          is_markdown_word(shown[at + 1]);
    const bool is_plain =
        is_markdown_word(c) || is_inner || std::string_view(" .,/-").find(c) != std::string_view::npos;
    out += is_plain ? std::string(1, c) : fmt::format("&#{};", static_cast<int>(c));
  }
  return out;
}

}  // namespace

std::string markdown_code(std::string_view text) {
  if (text.empty()) return "—";
  return fmt::format("<code>{}</code>", as_numbers(escape_for_terminal(text)));
}

std::string markdown_text(std::string_view text) {
  const std::string shown = escape_for_terminal(text);
  std::string out;
  std::string_view rest = shown;
  while (!rest.empty()) {
    const size_t begin = rest.find('`');
    const size_t end = begin == std::string_view::npos ? begin : rest.find('`', begin + 1);
    if (end == std::string_view::npos) break;
    out += as_numbers(rest.substr(0, begin)) + markdown_code(rest.substr(begin + 1, end - begin - 1));
    rest.remove_prefix(end + 1);
  }
  return out + as_numbers(rest);
}

std::string markdown_table(std::span<const std::string_view> heads, const std::vector<std::vector<std::string>>& rows,
                           MarkdownLimits limits) {
  std::string out = "|", marks = "|";
  for (const std::string_view head : heads) {
    const bool is_number = head.starts_with('#');
    out += fmt::format(" {} |", is_number ? head.substr(1) : head);
    marks += is_number ? "---:|" : "---|";
  }
  out += "\n" + marks + "\n";
  const size_t begin = out.size();
  size_t written = 0;
  for (const std::vector<std::string>& row : rows) {
    const std::string line = fmt::format("| {} |\n", join(row, " | "));
    if (written == limits.rows || out.size() - begin + line.size() > limits.bytes) break;
    out += line;
    ++written;
  }
  if (written < rows.size()) out += fmt::format("\nand {} more\n", rows.size() - written);
  return out;
}

}  // namespace tpplan
