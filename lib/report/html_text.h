// HTML helpers that the report's sections share. Every text from a manifest is escaped with `html`.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/path_patterns.h"
#include "cost/measure_manifest.h"

namespace tpplan {

// The maximum number of bytes shown of a name. `html` notes the omitted rest.
inline constexpr size_t kMaxShownName = 240;

// Returns a text escaped for HTML text or a double-quoted attribute value: without markup, control characters or
// direction overrides. Only the first kMaxShownName bytes are shown.
[[nodiscard]] std::string html(std::string_view text);

// Returns a name or other literal as an escaped <code> element.
[[nodiscard]] std::string code(std::string_view text);

// Returns a number with thousands separators: 36003 as "36,003".
[[nodiscard]] std::string grouped(uint64_t number);

// Returns a number with its noun: "1 parameter", "36,003 parameters".
[[nodiscard]] std::string grouped(uint64_t number, std::string_view noun);

// Returns a size as HTML: <data value="1536">1.50 KiB</data>.
[[nodiscard]] std::string bytes_html(uint64_t bytes);

// Returns seconds as HTML: <data value="0.012">12.0 ms</data>.
[[nodiscard]] std::string seconds_html(double seconds);

// Returns a text such as "0–7, 12": the first `most` ranges, then the number of remaining ranks. `count` is the total
// number of ranks.
[[nodiscard]] std::string ranks_text(std::span<const RankRange> ranks, int64_t count, size_t most);

// Returns the pass of a collective, with ", hidden" if no rule requests it: "backward, hidden".
[[nodiscard]] std::string pass_text(bool backward, bool hidden);

// Returns a <ul> of the first `most` patterns with their counts. A sentence below counts the remaining patterns.
[[nodiscard]] std::string patterns_html(std::span<const PathPattern> patterns, size_t most, std::string_view noun);

// Returns the <dt> and <dd> of a description list. `value` is HTML.
[[nodiscard]] std::string description_item(std::string_view name, const std::string& value);

// Returns a table in a scrollable box. `rows` is HTML of <tr> elements. `heads` are plain words, with a leading '#' for
// numeric columns and '@' for columns of paths, which break anywhere. Narrow pages stack the cells of wide tables.
[[nodiscard]] std::string table_html(std::string_view caption, std::span<const std::string_view> heads,
                                     const std::string& rows);

// Returns a <tr>. `cells` are HTML and the first is the row header. @pre `heads` are those of table_html
[[nodiscard]] std::string row_html(std::span<const std::string_view> heads, std::span<const std::string> cells);

// Return the page's style sheet, and the CSP source expression 'sha256-...' that allows only this style sheet.
[[nodiscard]] std::string_view style_sheet();
[[nodiscard]] std::string csp_style_source();

}  // namespace tpplan
