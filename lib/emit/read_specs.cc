#include "emit/read_specs.h"

#include <spdlog/fmt/fmt.h>

#include "base/string_index.h"

namespace tpplan {
namespace {

bool check_paths(const SourceFile& file, const SpecsFile& specs, Diagnostics& diagnostics) {
  StringIndex index;
  const auto path_of_spec = [&](uint32_t i) -> std::string_view { return specs.specs[i].path; };
  for (uint32_t i = 0; i < specs.specs.size(); ++i) {
    const std::string& path = specs.specs[i].path;
    if (insert(index, path, i, path_of_spec) == kNotFound) continue;
    return report_specs_error(diagnostics, {file.id, 0, 0}, fmt::format("parameter `{}` appears twice", path));
  }
  return !specs.specs.empty() || report_specs_error(diagnostics, {file.id, 0, 0}, "the file names no parameters");
}

}  // namespace

bool read_specs(SpecsReader reader, const SourceFile& file, SpecsFile& specs, Diagnostics& diagnostics) {
  return reader(file, specs, diagnostics) && check_paths(file, specs, diagnostics);
}

bool report_specs_error(Diagnostics& diagnostics, Span span, std::string message, std::string help) {
  report_message(diagnostics, Code::InvalidSpecsFile, span, std::move(message), std::move(help));
  return false;
}

// Tests size * devices >= 2^31 by a division that rounds up, because the product can overflow.
bool add_axis(Mesh& mesh, std::string_view name, int64_t size, Span span, Diagnostics& diagnostics) {
  const auto reject = [&](std::string message) { return report_specs_error(diagnostics, span, std::move(message)); };
  if (name.empty()) return reject("a mesh axis has an empty name");
  if (find_axis(mesh, name) != kNoAxis) return reject(fmt::format("axis `{}` appears twice in the mesh", name));
  if (size < 1) return reject(fmt::format("axis `{}` has size {}, but must have at least 1", name, size));
  if (mesh.axes.size() == kMaxAxes) return reject(fmt::format("the mesh has more than {} axes", kMaxAxes));
  if (size >= ((int64_t{1} << 31) + device_count(mesh) - 1) / device_count(mesh))
    return reject("the axis sizes multiply to 2^31 devices or more");
  mesh.axes.push_back({std::string(name), size});
  return true;
}

bool add_spec_axis(const Mesh& mesh, std::string_view name, PartitionSpec& spec, Span span, Diagnostics& diagnostics) {
  const AxisId axis = find_axis(mesh, name);
  if (axis == kNoAxis)
    return report_specs_error(diagnostics, span,
                              fmt::format("`{}` is not an axis of the mesh {}", name, to_text(mesh)));
  if (uses_axis(spec, axis))
    return report_specs_error(diagnostics, span, fmt::format("axis `{}` appears twice in one spec", name));
  spec.back().push_back(axis);
  return true;
}

}  // namespace tpplan
