// Texts that are embedded in the programs (tools/cmake/embed.cmake).
#pragma once

#include <string_view>

namespace tpplan {

// Return the text of a schema ("model") or of a page of `explain` ("TP4001"); nullptr if there is none.
[[nodiscard]] const char* embedded_schema(std::string_view kind);
[[nodiscard]] const char* embedded_page(std::string_view code);

}  // namespace tpplan
