// A recorded program with the shardings of a plan.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "programs/program.h"
#include "programs/read_shardings.h"

namespace tpplan::programs {

using WrittenDims = std::optional<std::vector<WrittenDim>>;  // nullopt: the propagation decides

// A value at a module's boundary, as the recorder marks it (an operation `tpplan.boundary`).
struct MarkedValue {
  std::string_view module;
  std::string_view value;   // "in 0", "in mask" or "out 0"
  std::string_view mapped;  // dims that jax.vmap adds, as "0,2"
  std::span<const int64_t> shape;
};

struct ProgramPlacement {
  std::vector<std::string> axis_names;
  std::vector<int64_t> axis_sizes;
  std::vector<WrittenDims> arguments, results;                   // of each argument and result
  std::function<WrittenDims(const MarkedValue&)> constraint_of;  // nullopt: the value is not constrained
};

// Returns a copy of a program, with a constraint for each marked value that has one. `ignored` counts the constraints
// of the program itself that cannot be applied, as over axes that the mesh lacks. @pre a sharding has a dim for each of
// its tensor, each axis once
[[nodiscard]] Program place_program(const Program& recorded, const ProgramPlacement& placement, size_t& ignored);

}  // namespace tpplan::programs
