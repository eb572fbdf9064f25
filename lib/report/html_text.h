// Pieces of HTML that the report's sections share. What comes from a manifest passes through `html` or is a number.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/path_patterns.h"
#include "measure/measure_manifest.h"

namespace tpplan {

// Bytes of a name that are shown; the rest is left out, and said to be.
inline constexpr size_t kMaxShownName = 240;

// Any text as HTML text or as an attribute's value in double quotes: no markup, no control characters, no direction
// overrides, none of it longer than kMaxShownName bytes of the text.
[[nodiscard]] std::string html(std::string_view text);

// A name or other literal, as <code>.
[[nodiscard]] std::string code(std::string_view text);

// 36003 -> "36,003".
[[nodiscard]] std::string grouped(uint64_t number);

// "1 parameter", "36,003 parameters".
[[nodiscard]] std::string grouped(uint64_t number, std::string_view noun);

// <data value="1536">1.50 KiB</data>
[[nodiscard]] std::string bytes_html(uint64_t bytes);

// "0–7, 12": the first `most` runs, then how many ranks more; `count` ranks in all.
[[nodiscard]] std::string ranks_text(std::span<const RankRun> ranks, int64_t count, size_t most);

// "backward, hidden": the pass of a call, and whether no rule asks for it.
[[nodiscard]] std::string pass_text(bool backward, bool hidden);

// <ul> of patterns with their counts; those beyond `most` are counted in a sentence below.
[[nodiscard]] std::string patterns_html(std::span<const PathPattern> patterns, size_t most, std::string_view noun);

// <dt> and <dd> of a list of facts; the value is HTML.
[[nodiscard]] std::string fact(std::string_view name, const std::string& value);

// A table in a box that scrolls by itself, so that the page does not. `rows` is HTML of <tr>; `heads` are plain words,
// with a leading '#' for columns of numbers.
[[nodiscard]] std::string table_html(std::string_view caption, std::span<const std::string_view> heads,
                                     const std::string& rows);

// <tr> of cells that are HTML; the first is the row's header, those whose head is marked by '#' are numbers.
[[nodiscard]] std::string row_html(std::span<const std::string_view> heads, std::span<const std::string> cells);

// The page's style sheet, and the CSP source expression that allows it alone: 'sha256-...'.
[[nodiscard]] std::string_view style_sheet();
[[nodiscard]] std::string style_source();

}  // namespace tpplan
