#include "sharding/distribution.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace tpplan {
namespace {

constexpr DistributionRow kRows[] = {
    {"zeros", 0, {}},
    {"ones", 0, {}},
    {"constant", 1, {}},
    {"normal", 2, {"mean", "std"}},
    {"uniform", 2, {"low", "high"}},
};
static_assert(std::size(kRows) == static_cast<size_t>(DistributionKind::Uniform) + 1);

}  // namespace

std::span<const DistributionRow> distribution_table() { return kRows; }

bool find_distribution(std::string_view name, DistributionKind& kind) {
  const auto found =
      std::find_if(std::begin(kRows), std::end(kRows), [&](const DistributionRow& row) { return row.name == name; });
  kind = static_cast<DistributionKind>(found - std::begin(kRows));
  return found != std::end(kRows);
}

std::string_view distribution_error(const Distribution& d) {
  const bool finite = std::all_of(d.arguments.begin(), d.arguments.end(), [](double x) { return std::isfinite(x); });
  if (!finite) return "a number is not finite";
  if (d.kind == DistributionKind::Normal && d.arguments[1] < 0) return "`std` is negative";
  if (d.kind == DistributionKind::Uniform && d.arguments[0] >= d.arguments[1]) return "`low` is not below `high`";
  return {};
}

bool parse_number(std::string_view text, double& value) {
  const std::string_view digits = text.starts_with('-') ? text.substr(1) : text;
  const bool starts_well = !digits.empty() && digits[0] >= '0' && digits[0] <= '9' &&
                           (digits.size() == 1 || digits[0] != '0' || digits[1] < '0' || digits[1] > '9');
  const size_t point = digits.find('.');
  const bool fraction_is_there = point == std::string_view::npos ||
                                 (point + 1 < digits.size() && digits[point + 1] >= '0' && digits[point + 1] <= '9');
  if (!starts_well || !fraction_is_there) return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && std::isfinite(value);
}

std::string number_text(double value) {
  char text[32];
  return std::string(text, std::to_chars(text, text + sizeof text, value).ptr);
}

std::string to_text(const Distribution& d) {
  const DistributionRow& row = kRows[static_cast<size_t>(d.kind)];
  if (row.argument_count == 0) return std::string(row.name);
  if (row.argument_count == 1) return fmt::format("{} {}", row.name, number_text(d.arguments[0]));
  return fmt::format("{} ({} {}, {} {})", row.name, row.arguments[0], number_text(d.arguments[0]), row.arguments[1],
                     number_text(d.arguments[1]));
}

}  // namespace tpplan
