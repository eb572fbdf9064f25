// The numbers of two manifests side by side, for every format for people.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "manifest/diff_manifest.h"

namespace tpplan {

// A number that differs. Both sides read differently.
struct NumberRow {
  std::string_view name;
  std::string before, after;
  std::string change;  // "+1.5 %"; empty where it is too small to say, or nothing was there before
};

// Bytes that read alike in KiB or GiB are written to the byte.
[[nodiscard]] std::vector<NumberRow> byte_rows(const RankBytes& before, const RankBytes& after);

// Of a step, where the time of both sides is known.
[[nodiscard]] std::vector<NumberRow> time_rows(const TimeDiff& time);

// Why nobody knows the time of a step of one side or both; empty where it is known.
[[nodiscard]] std::string_view time_gap(const TimeDiff& time);

}  // namespace tpplan
