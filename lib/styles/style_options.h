// The options of rules with a style.
#pragma once

#include <cstdint>
#include <string_view>

namespace tpplan {

// Options of a rule, as consecutive bits.
enum StyleOption : uint16_t {
  kInputLayouts = 1,
  kDesiredInputLayouts = 2,
  kInputKwargLayouts = 4,
  kDesiredInputKwargLayouts = 8,
  kOutputLayouts = 16,
  kDesiredOutputLayouts = 32,
  kUseLocalInput = 64,
  kUseLocalOutput = 128,
  kSequenceDim = 256,
  kForwardDtype = 512,
  kBackwardDtype = 1024,
};
inline constexpr uint16_t kLastOption = kBackwardDtype;

[[nodiscard]] std::string_view option_name(StyleOption option);
// Returns the bit of an option; 0 if there is none of that name.
[[nodiscard]] uint16_t find_option(std::string_view name);

}  // namespace tpplan
