// What stands in the programs themselves (tools/cmake/embed.cmake).
#pragma once

#include <string_view>

namespace tpplan {

// The text of a schema ("model") or of a page of `explain` ("TP4001"), or nullptr.
[[nodiscard]] const char* embedded_schema(std::string_view kind);
[[nodiscard]] const char* embedded_page(std::string_view code);

}  // namespace tpplan
