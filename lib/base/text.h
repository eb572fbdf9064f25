// Text for people: nearest names, sizes, escaping, UTF-8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tpplan {

// Number of insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b` (optimal string
// alignment distance), or `limit + 1` as soon as it is known to exceed `limit`.
[[nodiscard]] size_t edit_distance(std::string_view a, std::string_view b, size_t limit);

// The candidate closest to `name` that a typing slip can explain (at most a third of its letters); empty when none is.
// Of equally close ones the first in the list; the same letters, large or small, are closest.
[[nodiscard]] std::string_view nearest_name(std::string_view name, std::span<const std::string_view> candidates);
// The same, within a budget of compared letters (those of one name times those of the other) that several calls share:
// who has none left finds nothing.
[[nodiscard]] std::string_view nearest_name(std::string_view name, std::span<const std::string_view> candidates,
                                            uint64_t& budget);

// 1536 -> "1.5 KiB". Powers of 1024, at most three significant figures past the integer part.
[[nodiscard]] std::string human_bytes(uint64_t bytes);

// "1.23 s", "45.6 ms", "7.8 us".
[[nodiscard]] std::string human_seconds(double seconds);

// Control characters, DEL, bytes that are not UTF-8, direction overrides, and characters that nobody sees written as
// \n, \x1b, \u202e, \U000e0041: a hostile name can neither move the cursor nor reorder what a person reads, and names
// that differ look it. Other text is unchanged.
[[nodiscard]] std::string escape_for_terminal(std::string_view text);

// Text of several lines as people and logs get it: every line escaped as above, and none of them a command to who runs
// a job (GitHub's runner takes `::` for one where a line begins, behind blanks too, and `##[` anywhere). All that is
// printed for people goes through here, so that no name needs to be trusted.
struct LineLook {
  bool color = false;     // codes of paint() stay
  bool is_patch = false;  // tabs stay, and returns at the end of lines, as who applies a patch needs them
};
[[nodiscard]] std::string escape_lines(std::string_view text, LineLook look = {});

// `text` between the codes that show it so on a terminal, or as it is.
inline constexpr std::string_view kReset = "\x1b[0m", kBold = "\x1b[1m", kRed = "\x1b[1;31m", kYellow = "\x1b[1;33m",
                                  kBlue = "\x1b[1;34m", kGreen = "\x1b[1;32m", kMagenta = "\x1b[1;35m",
                                  kCyan = "\x1b[1;36m";
[[nodiscard]] std::string paint(std::string_view text, std::string_view code, bool enabled);

// The code point of a character that is valid UTF-8.
[[nodiscard]] char32_t code_point(std::string_view character);

// Of valid UTF-8.
[[nodiscard]] size_t count_code_points(std::string_view text);

// Whether a person does not see it, or sees what is around it elsewhere: direction marks, blanks that are no space,
// line ends of Unicode, tags and all that is ignored by default.
[[nodiscard]] bool is_unseen(char32_t point);

// How many bytes the first character of `text` takes; 0 where they are not valid UTF-8 (Unicode 15.0, table 3-7).
[[nodiscard]] size_t utf8_length(std::string_view text);

// Offset of the first byte that is not well-formed UTF-8 (RFC 3629), or npos.
[[nodiscard]] size_t find_invalid_utf8(std::string_view text);

// "a", "b" and "c" joined by `separator`.
[[nodiscard]] std::string join(std::span<const std::string> parts, std::string_view separator);

// "1 parameter", "32 parameters".
[[nodiscard]] std::string counted(uint64_t count, std::string_view noun);

// 0..n parts of `text` between separators; an empty text has one empty part, as Python's str.split has.
[[nodiscard]] std::vector<std::string_view> split(std::string_view text, char separator);

// Whole decimal text as a non-negative integer: no sign, no leading zero, below 2^63. Returns false otherwise.
[[nodiscard]] bool parse_decimal(std::string_view text, int64_t& value);

// Leaves of a text that takes more than `shown` bytes on a terminal its two ends, at most `shown` bytes of them.
void shorten(std::string& text, size_t shown);

}  // namespace tpplan
