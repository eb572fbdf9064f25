// The table of styles. A new style is a row (two if torch and transformers define it differently).
#pragma once

#include <span>
#include <string_view>

#include "styles/style_row.h"

namespace tpplan {

[[nodiscard]] std::span<const StyleRow> style_table();

// Returns the row of a style in a set; nullptr if the set lacks it.
[[nodiscard]] const StyleRow* find_style(std::string_view name, StyleSet set);

// True if any set has the style.
[[nodiscard]] bool is_style(std::string_view name);

}  // namespace tpplan
