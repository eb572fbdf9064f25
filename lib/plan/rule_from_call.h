// Converts calls in Python code to rules of a plan.
#pragma once

#include <string>
#include <string_view>

namespace tpplan {

// Converts `ColwiseParallel(output_layouts=Replicate())` to `{style: colwise, output_layouts: Replicate}`. Returns an
// empty text if the call has no arguments, or one that is no option of a rule.
[[nodiscard]] std::string rule_from_call(std::string_view text, std::string_view style);

// Converts `P('tp', None)`, `(None, "tp")`, `NamedSharding(mesh, P('tp'))` or a quoted list to a spec of a plan. The
// opening bracket can be missing. Returns an empty text for anything else.
[[nodiscard]] std::string spec_from_call(std::string_view text);

}  // namespace tpplan
