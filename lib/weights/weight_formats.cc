#include "weights/weight_formats.h"

#include <algorithm>

#include "weights/safetensors_header.h"

namespace tpplan {
namespace {

constexpr WeightFormat kWeightFormats[] = {
    {"safetensors", ".safetensors", read_safetensors_header},
};

}  // namespace

std::span<const WeightFormat> weight_formats() { return kWeightFormats; }

const WeightFormat& weight_format_of(std::string_view name) {
  const auto* row = std::ranges::find_if(
      kWeightFormats, [name](const WeightFormat& format) { return name.ends_with(format.extension); });
  return row == std::end(kWeightFormats) ? kWeightFormats[0] : *row;
}

}  // namespace tpplan
