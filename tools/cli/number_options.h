// Options with numbers: decimal and within limits. CLI11 alone reads 010 as eight, wraps numbers that are too large,
// and accepts NaN in every range.
#pragma once

#include <cstdint>

namespace CLI {
class Option;
}

namespace tpplan {

// Accepts an integer from `low` to `high`.
void add_integer_range(CLI::Option* option, uint64_t low, uint64_t high);

// Accepts a number from `low` to `high`, with an optional fraction.
void take_number(CLI::Option* option, double low, double high);

// Accepts bytes, at least `low`: an integer with an optional unit (B, KB, KiB, MB, MiB, GB, GiB, TB, TiB; any case),
// all powers of 1024.
void take_bytes(CLI::Option* option, uint64_t low);

}  // namespace tpplan
