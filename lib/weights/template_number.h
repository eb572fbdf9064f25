// Numbers of a template: "=num_attention_heads*head_dim", a whole one, and "~head_dim**-0.5", which may be a fraction.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "weights/graph_template.h"

namespace tpplan {

// The number that the text behind the mark stands for, as JSON. "null" where it is one field that the config leaves
// out; nothing, and `fault` says why, where a field has no number or the result none of 64 bits.
[[nodiscard]] std::optional<std::string> template_number(std::string_view text, const TemplateFields& fields,
                                                         std::string& fault);

// As Python writes a float: with a point or an exponent.
[[nodiscard]] std::string float_text(double number);

}  // namespace tpplan
