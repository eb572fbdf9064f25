#include "emit/emit_jax.h"

#include <spdlog/fmt/fmt.h>

#include "emit/emit_text.h"

namespace tpplan {

const LossRow kJaxLossRows[2] = {
    {has_uneven_pieces, "the pieces of {} have different sizes",
     "minor axes are dropped until the rest divides the dim: ranks hold more"},
    {has_segments, "the segments of {} are cut each by itself",
     "the dim is cut as one piece: ranks hold other elements"},
};

bool write_jax(const Manifest& manifest, const Sink& sink) {
  const Mesh& mesh = manifest.mesh;
  return write_params(
      manifest, sink,
      {.head = fmt::format("{{\n \"mesh\": {{\"axis_shapes\": {}, \"axis_names\": {}}},\n \"specs\": {{\n",
                           axis_sizes_text(mesh), axis_names_text(mesh)),
       .layout_text = [&](const ParamLayout& layout) { return spec_text(even_spec(layout, mesh), mesh); },
       .append_line = [](std::string& line, std::string_view path,
                         const std::string& spec) { line += fmt::format("  {}: {}", quoted(path), spec); },
       .tail = "\n }\n}\n"});
}

}  // namespace tpplan
