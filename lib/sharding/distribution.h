// How the values of a parameter are made without a checkpoint. One table; plans and manifests write rows of it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tpplan {

enum class DistributionKind : uint8_t { Zeros, Ones, Constant, Normal, Uniform };

// Arguments in the order of the table's row.
struct Distribution {
  DistributionKind kind = DistributionKind::Zeros;
  std::array<double, 2> arguments{};
  bool operator==(const Distribution&) const = default;
};

struct DistributionRow {
  std::string_view name;
  size_t argument_count;
  std::array<std::string_view, 2> arguments;  // their names; a single one has none: `{constant: 0.5}`
};

// By DistributionKind.
[[nodiscard]] std::span<const DistributionRow> distribution_table();

// False when there is no distribution of that name.
[[nodiscard]] bool find_distribution(std::string_view name, DistributionKind& kind);

// True when values come from the generator.
[[nodiscard]] inline bool is_random(const Distribution& d) {
  return d.kind == DistributionKind::Normal || d.kind == DistributionKind::Uniform;
}

// Why nothing can be drawn from it ("`std` is negative"); empty when it can.
[[nodiscard]] std::string_view fault_of(const Distribution& distribution);

// A number as JSON and YAML have it: digits with an optional fraction and exponent. False for other text and what a
// double does not hold.
[[nodiscard]] bool parse_number(std::string_view text, double& value);

// The shortest text that reads back as the same double.
[[nodiscard]] std::string number_text(double value);

// "zeros", "constant 0.5", "normal (mean 0, std 0.02)".
[[nodiscard]] std::string to_text(const Distribution& distribution);

}  // namespace tpplan
