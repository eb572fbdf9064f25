// Human-readable text: nearest names, sizes, escaping, UTF-8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tpplan {

// Returns the number of insertions, deletions, substitutions and swaps of adjacent letters that turn `a` into `b`
// (optimal string alignment distance), or `limit + 1` if it exceeds `limit`.
[[nodiscard]] size_t edit_distance(std::string_view a, std::string_view b, size_t limit);

// Returns the candidate closest to `name`, if a typo can explain the difference (at most a third of its letters), else
// an empty text. A difference in case only is closest; of equally close ones the first.
[[nodiscard]] std::string_view nearest_name(std::string_view name, std::span<const std::string_view> candidates);
// nearest_name with a budget of compared letters (the product of both lengths) that several calls share. Returns an
// empty text if the budget is used up.
[[nodiscard]] std::string_view nearest_name(std::string_view name, std::span<const std::string_view> candidates,
                                            uint64_t& budget);

// True for an ASCII letter, a digit or `_`.
[[nodiscard]] bool is_word_char(char c);

// True for one or more decimal digits, as the number of a layer in a path.
[[nodiscard]] bool is_digits(std::string_view text);

// Returns a size in powers of 1024, with at most three significant figures past the integer part: 1536 -> "1.5 KiB".
[[nodiscard]] std::string human_bytes(uint64_t bytes);
// Returns the nearest whole number of bytes, at most 1e18, as human_bytes does. @pre bytes >= 0
[[nodiscard]] std::string human_bytes_near(double bytes);

// Returns text such as "1.23 s", "45.6 ms" or "7.8 us".
[[nodiscard]] std::string human_seconds(double seconds);

// Returns the text with control characters, DEL, bytes that are not UTF-8, direction overrides and invisible characters
// written as \n, \x1b, \u202e, \U000e0041: a hostile name cannot move the cursor or reorder text, and different names
// look different. Other text is unchanged.
[[nodiscard]] std::string escape_for_terminal(std::string_view text);

// Escapes text of several lines for terminals and logs: each line as in escape_for_terminal, and no line is a workflow
// command (GitHub's runner executes `::` at the begin of a line, also after blanks, and `##[` anywhere). All
// human-readable output passes through here, so that names need not be trusted.
struct EscapeOptions {
  bool color = false;     // codes of paint() stay
  bool is_patch = false;  // tabs and carriage returns before line breaks stay, because patch(1) needs them
};
[[nodiscard]] std::string escape_lines(std::string_view text, EscapeOptions look = {});

// Codes of paint(), which returns `text` between `code` and kReset, or unchanged unless `enabled`.
inline constexpr std::string_view kReset = "\x1b[0m", kBold = "\x1b[1m", kRed = "\x1b[1;31m", kYellow = "\x1b[1;33m",
                                  kBlue = "\x1b[1;34m", kGreen = "\x1b[1;32m", kMagenta = "\x1b[1;35m",
                                  kCyan = "\x1b[1;36m";
[[nodiscard]] std::string paint(std::string_view text, std::string_view code, bool enabled);

// Returns the code point of a character. @pre valid UTF-8
[[nodiscard]] char32_t code_point(std::string_view character);

// @pre valid UTF-8
[[nodiscard]] size_t count_code_points(std::string_view text);

// True for characters that are invisible or reorder the text around them: direction marks, blanks other than the space,
// line separators of Unicode, tags and default-ignorable characters.
[[nodiscard]] bool is_invisible(char32_t point);

// Returns the bytes of the first character of `text`; 0 if they are not valid UTF-8 (Unicode 15.0, table 3-7).
[[nodiscard]] size_t utf8_length(std::string_view text);

// Returns the offset of the first byte that is not well-formed UTF-8 (RFC 3629), or npos.
[[nodiscard]] size_t find_invalid_utf8(std::string_view text);

// Joins the parts with `separator`.
[[nodiscard]] std::string join(std::span<const std::string> parts, std::string_view separator);

// Returns the number and the noun, such as "1 parameter" or "32 parameters".
[[nodiscard]] std::string counted(uint64_t count, std::string_view noun);

// Splits `text` at separators. An empty text has one empty part, as in Python's str.split.
[[nodiscard]] std::vector<std::string_view> split(std::string_view text, char separator);

// Parses a nonnegative decimal integer: no sign, no leading zero, below 2^63. Returns false otherwise.
[[nodiscard]] bool parse_decimal(std::string_view text, int64_t& value);

// Removes the middle of a text that takes more than `shown` bytes on a terminal.
void shorten(std::string& text, size_t shown);

}  // namespace tpplan
