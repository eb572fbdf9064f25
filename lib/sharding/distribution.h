// Distributions from which parameters are initialised without a checkpoint. Plans and manifests name rows of one table.
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

// Returns the table, indexed by DistributionKind.
[[nodiscard]] std::span<const DistributionRow> distribution_table();

// Returns false if no distribution has that name.
[[nodiscard]] bool find_distribution(std::string_view name, DistributionKind& kind);

// True if the values come from the random generator.
[[nodiscard]] inline bool is_random(const Distribution& d) {
  return d.kind == DistributionKind::Normal || d.kind == DistributionKind::Uniform;
}

// Returns why the arguments are invalid ("`std` is negative"); empty if they are valid.
[[nodiscard]] std::string_view distribution_error(const Distribution& distribution);

// Parses a number of JSON or YAML: digits with an optional fraction and exponent. Returns false for any other text and
// for numbers out of the range of a double.
[[nodiscard]] bool parse_number(std::string_view text, double& value);

// Returns the shortest text that parses to the same double.
[[nodiscard]] std::string number_text(double value);

// Returns text such as "zeros", "constant 0.5" or "normal (mean 0, std 0.02)".
[[nodiscard]] std::string to_text(const Distribution& distribution);

}  // namespace tpplan
