#include "report/html_text.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/sha256.h"
#include "base/text.h"
#include "report/memory_text.h"

namespace tpplan {
namespace {

// Escapes both kinds of quotes, so that the text is safe in any attribute.
std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

// Returns the base64 encoding (RFC 4648) of bytes given as hexadecimal digits.
std::string base64_of_hex(std::string_view hex) {
  static constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  uint32_t bits = 0;
  int held = 0;
  for (const char digit : hex) {
    bits = bits << 4 | static_cast<uint32_t>(kDigits.find(digit));
    held += 4;
    if (held < 6) continue;
    held -= 6;
    out += kAlphabet[bits >> held & 63u];
  }
  if (held > 0) out += kAlphabet[bits << (6 - held) & 63u];
  while (out.size() % 4 != 0) out += '=';
  return out;
}

constexpr size_t kFewColumns = 4;  // tables with more columns stack the cells of a row on narrow pages

std::string_view class_of_column(std::string_view head) {
  return head.starts_with('#') ? " class=\"n\"" : head.starts_with('@') ? " class=\"p\"" : "";
}

std::string_view text_of_head(std::string_view head) { return head.substr(class_of_column(head).empty() ? 0 : 1); }

}  // namespace

// Truncates before escaping, because truncation could split an entity or an escape.
std::string html(std::string_view text) {
  const std::string_view shown = truncate_name(text, kMaxShownName);
  const std::string out = escape_html(escape_for_terminal(shown));
  return shown.size() == text.size() ? out
                                     : fmt::format("{}… ({} more)", out, grouped(text.size() - shown.size(), "byte"));
}

std::string code(std::string_view text) {
  return text.empty() ? "<code>(root)</code>" : fmt::format("<code>{}</code>", html(text));
}

std::string grouped(uint64_t number) {
  std::string digits = std::to_string(number);
  for (size_t at = digits.size(); at > 3;) digits.insert(at -= 3, ",");
  return digits;
}

// Replaces the number of counted(), which forms the plural, by the one with commas.
std::string grouped(uint64_t number, std::string_view noun) {
  const std::string plain = counted(number, noun);
  return grouped(number) + plain.substr(plain.find(' '));
}

std::string bytes_html(uint64_t bytes) {
  return fmt::format("<data value=\"{}\">{}</data>", bytes, human_bytes(bytes));
}

std::string seconds_html(double seconds) {
  return fmt::format("<data value=\"{:.9g}\">{}</data>", seconds, human_seconds(seconds));
}

std::string ranks_text(std::span<const RankRange> ranks, int64_t count, size_t most) {
  return rank_ranges_text(ranks, count, most, "–");
}

std::string pass_text(bool backward, bool hidden) {
  return fmt::format("{}{}", backward ? "backward" : "forward", hidden ? ", hidden" : "");
}

std::string patterns_html(std::span<const PathPattern> patterns, size_t most, std::string_view noun) {
  std::string out = "<ul class=\"paths\">\n";
  uint64_t rest = 0;
  for (size_t i = 0; i < patterns.size(); ++i) {
    const PathPattern& pattern = patterns[i];
    if (i >= most) {
      rest += pattern.count;
      continue;
    }
    out += fmt::format("<li>{}", code(pattern.text));
    if (pattern.count > 1) out += fmt::format(" <span class=\"muted\">{}</span>", grouped(pattern.count));
    if (pattern.combinations > pattern.count)
      out +=
          fmt::format(" <span class=\"muted\">of the {} that the braces match</span>", grouped(pattern.combinations));
    out += "</li>\n";
  }
  out += "</ul>\n";
  if (patterns.size() > most)
    out += fmt::format("<p class=\"more\">And {} more in {}.</p>\n", grouped(rest, noun),
                       grouped(patterns.size() - most, "pattern"));
  return out;
}

std::string description_item(std::string_view name, const std::string& value) {
  return fmt::format("<dt>{}</dt><dd>{}</dd>\n", name, value);
}

std::string table_html(std::string_view caption, std::span<const std::string_view> heads, const std::string& rows) {
  std::string out = fmt::format(
      "<div class=\"scroll\" role=\"region\" tabindex=\"0\" "
      "aria-label=\"{0}\"><table{1}>\n<caption>{0}</caption>\n<thead><tr>",
      caption, heads.size() > kFewColumns ? " class=\"wide\"" : "");
  for (const std::string_view head : heads)
    out += fmt::format("<th scope=\"col\"{}>{}</th>", class_of_column(head), text_of_head(head));
  return out + "</tr></thead>\n<tbody>\n" + rows + "</tbody></table></div>\n";
}

std::string row_html(std::span<const std::string_view> heads, std::span<const std::string> cells) {
  std::string out = "<tr>";
  const bool is_stacked = heads.size() > kFewColumns;
  for (size_t i = 0; i < cells.size(); ++i) {
    const std::string_view style = class_of_column(heads[i]);
    out += i == 0       ? fmt::format("<th scope=\"row\"{}>{}</th>", style, cells[i])
           : is_stacked ? fmt::format("<td{} data-head=\"{}\">{}</td>", style, text_of_head(heads[i]), cells[i])
                        : fmt::format("<td{}>{}</td>", style, cells[i]);
  }
  return out + "</tr>\n";
}

// A CSP hash covers the exact bytes between <style> and </style>. With any extra space in head_html, browsers ignore
// the style sheet.
std::string csp_style_source() { return fmt::format("'sha256-{}'", base64_of_hex(sha256_hex(style_sheet()))); }

}  // namespace tpplan
