// Shardings as programs write them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "programs/program.h"

namespace tpplan::programs {

// A dim of a sharding as written: axes like "model" or "model:1:2", major first.
struct WrittenDim {
  std::vector<std::string_view> axes;
  std::vector<std::pair<int64_t, int64_t>> parts;  // of each axis: sizes before and of it; empty or {0, 0}: in `axes`
  bool is_open = false;
};

// Reads "#sdy.sharding<@mesh, [{"data"}, {"model":(1)2, ?}]>". Returns what is wrong; empty without an error.
[[nodiscard]] std::string read_sharding_text(std::string_view text, std::vector<WrittenDim>& dims);

// Makes `dims` the sharding of a value. Axes of size 1 are dropped. Returns what is wrong; empty without an error.
[[nodiscard]] std::string resolve_sharding(Program& program, ValueIndex value, std::span<const WrittenDim> dims);

}  // namespace tpplan::programs
