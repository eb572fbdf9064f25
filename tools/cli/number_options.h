// Options that take numbers: decimal, within their limits, and nothing else. CLI11 alone reads 010 as eight, wraps what
// is too large, and lets NaN through every range.
#pragma once

#include <cstdint>

namespace CLI {
class Option;
}

namespace tpplan {

// A whole number from `low` to `high`.
void take_whole_number(CLI::Option* option, uint64_t low, uint64_t high);

// A number of seconds or the like from `low` to `high`.
void take_number(CLI::Option* option, double low, double high);

// Bytes: a whole number with a unit of 1024s (B, KB, KiB, MB, MiB, GB, GiB, TB, TiB; any case) or without, at least
// `low`.
void take_bytes(CLI::Option* option, uint64_t low);

}  // namespace tpplan
