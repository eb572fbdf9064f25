// Styles as code makes them, as a plan writes them.
#pragma once

#include <string>
#include <string_view>

namespace tpplan {

// `ColwiseParallel(output_layouts=Replicate())` as `{style: colwise, output_layouts: Replicate}`, of the style that the
// class is; empty where nothing stands in its brackets, or something that is no option of a rule.
[[nodiscard]] std::string rule_of_call(std::string_view text, std::string_view style);

// `P('tp', None)`, `(None, "tp")`, `NamedSharding(mesh, P('tp'))` and a list in quotes as the list that a plan has, of
// which the opening bracket may be missing; empty where the text is none of them.
[[nodiscard]] std::string spec_of_call(std::string_view text);

}  // namespace tpplan
