#include "styles/style_options.h"

#include <utility>

namespace tpplan {
namespace {

constexpr std::pair<std::string_view, StyleOption> kOptions[] = {
    {"input_layouts", kInputLayouts},
    {"desired_input_layouts", kDesiredInputLayouts},
    {"input_kwarg_layouts", kInputKwargLayouts},
    {"desired_input_kwarg_layouts", kDesiredInputKwargLayouts},
    {"output_layouts", kOutputLayouts},
    {"desired_output_layouts", kDesiredOutputLayouts},
    {"use_local_input", kUseLocalInput},
    {"use_local_output", kUseLocalOutput},
    {"sequence_dim", kSequenceDim},
    {"forward_dtype", kForwardDtype},
    {"backward_dtype", kBackwardDtype},
};

}  // namespace

std::string_view option_name(StyleOption option) {
  for (const auto& [name, value] : kOptions) {
    if (value == option) return name;
  }
  return "";
}

uint16_t find_option(std::string_view name) {
  for (const auto& [known, value] : kOptions) {
    if (known == name) return value;
  }
  return 0;
}

}  // namespace tpplan
