#include "emit/emit_orbax.h"

#include <spdlog/fmt/fmt.h>

#include "emit/emit_text.h"

namespace tpplan {
namespace {

std::string named_sharding(const ParamLayout& layout, const Mesh& mesh) {
  const std::vector<std::string> types(mesh.axes.size(), "\"AxisType.Auto\"");
  return fmt::format(
      "{{\"sharding_type\": \"NamedSharding\", \"shape\": {}, \"axis_names\": {}, \"axis_types\": {}, "
      "\"partition_spec\": {}}}",
      axis_sizes_text(mesh), axis_names_text(mesh), list_text(types), spec_text(even_spec(layout, mesh), mesh));
}

}  // namespace

std::string base64url(std::string_view bytes) {
  static constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  const auto byte = [&](size_t i) { return i < bytes.size() ? static_cast<unsigned char>(bytes[i]) : 0u; };
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const unsigned bits = byte(i) << 16 | byte(i + 1) << 8 | byte(i + 2);
    for (size_t k = 0; k < 4; ++k) out += i + k <= bytes.size() ? digits[bits >> (18 - 6 * k) & 63u] : '=';
  }
  return out;
}

bool write_orbax(const Manifest& manifest, const Sink& sink) {
  return write_params(
      manifest, sink,
      {.head = "{\n",
       .layout_text = [&](const ParamLayout& layout) { return quoted(named_sharding(layout, manifest.mesh)); },
       .append_line =
           [](std::string& line, std::string_view path, const std::string& sharding) {
             line += fmt::format(" \"{}\": {}", base64url(path), sharding);
           },
       .tail = "\n}\n"});
}

}  // namespace tpplan
