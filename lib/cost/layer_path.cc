#include "cost/layer_path.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/text.h"

namespace tpplan {
namespace {

// The maximum number of ranges in a text.
constexpr size_t kMaxRanges = 6;

}  // namespace

LayerPath layer_path(std::string_view path) {
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find('.', begin), path.size());
    int64_t number = 0;
    if (parse_decimal(path.substr(begin, end - begin), number))
      return {path.substr(0, begin == 0 ? 0 : begin - 1), number, path.substr(std::min(end + 1, path.size()))};
    begin = end + 1;
  }
  return {{}, -1, path};
}

std::string ranges_text(const std::vector<int64_t>& numbers) {
  std::string out = "{";
  size_t ranges = 0;
  for (size_t i = 0; i < numbers.size();) {
    size_t end = i;
    while (end + 1 < numbers.size() && numbers[end + 1] == numbers[end] + 1) ++end;
    if (ranges++ == kMaxRanges) return out + fmt::format(", {} more}}", numbers.size() - i);
    out += fmt::format("{}{}", i == 0 ? "" : ", ", numbers[i]);
    if (end > i) out += fmt::format("..{}", numbers[end]);
    i = end + 1;
  }
  return out + "}";
}

std::string join_path(std::string_view stack, std::string_view below) {
  return stack.empty() ? std::string(below) : below.empty() ? std::string(stack) : fmt::format("{}.{}", stack, below);
}

std::string layers_text(std::string_view stack, const std::vector<int64_t>& numbers) {
  return join_path(stack, numbers.size() == 1 ? std::to_string(numbers[0]) : ranges_text(numbers));
}

}  // namespace tpplan
