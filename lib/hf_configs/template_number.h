// Numbers of a template: "=num_attention_heads*head_dim" is an integer, "~head_dim**-0.5" can be a fraction.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace tpplan {

// The values of a template's expressions and marks.
struct TemplateFields {
  std::map<std::string_view, int64_t> sizes;             // "hidden_size"
  std::map<std::string_view, std::string_view> numbers;  // as written: "rms_norm_eps" 1e-06; "" is null
  std::map<std::string_view, std::string_view> lists;    // "long_factor": as an argument, ["t",1.5,2.0]
  std::string_view dtype, activation;                    // "bfloat16", "silu"
  int64_t batch = 0, sequence = 0;
};

// Returns the value of the expression after the mark as JSON; "null" if it is a single field that the config lacks.
// Returns nullopt with the reason in `fault` if a field has no number or the result exceeds 64 bits.
[[nodiscard]] std::optional<std::string> template_number(std::string_view text, const TemplateFields& fields,
                                                         std::string& fault);

// Returns a float as Python writes it, with a point or an exponent.
[[nodiscard]] std::string float_text(double number);

}  // namespace tpplan
