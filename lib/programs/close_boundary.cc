#include "programs/close_boundary.h"

namespace tpplan::programs {
namespace {

// Keeps the axes of a dim up to the first that is a part, or does not divide what is left of the size.
AxisParts even_axes(const Program& program, const AxisParts& parts, int64_t size) {
  AxisParts kept;
  for (const AxisPart& part : parts) {
    if (part.size != program.axis_sizes[part.axis] || size % part.size != 0) break;
    size /= part.size;
    kept.push_back(part);
  }
  return kept;
}

void close_value(Program& program, ValueIndex value) {
  const std::span<AxesOfDim> dims = dims_of(program, value);
  for (size_t d = 0; d < dims.size(); ++d)
    dims[d].axes = intern_axes(program.lists,
                               even_axes(program, parts_of(program.lists, dims[d].axes), shape_of(program, value)[d]));
}

}  // namespace

void close_boundary(Program& program) {
  for (uint32_t i = 0; i < program.blocks[0].argument_count; ++i) close_value(program, i);
  for (const ValueIndex result : program.results) close_value(program, result);
}

}  // namespace tpplan::programs
