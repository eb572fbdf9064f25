#include "emit/emit_orbax.h"

#include "emit/emit_text.h"
#include "manifest/manifest_json.h"

namespace tpplan {
namespace {

// Returns the JSON text of a NamedSharding.
std::string named_sharding(const ParamLayout& layout, const Mesh& mesh) {
  return json_of([&](JsonWriter& json) {
    begin_object(json);
    write_field(json, "sharding_type", "NamedSharding");
    write_key(json, "shape");
    write_json(json, axis_sizes_text(mesh));
    write_key(json, "axis_names");
    write_json(json, axis_names_text(mesh));
    write_key(json, "axis_types");
    write_array(json, mesh.axes, [&](const MeshAxis&) { write_value(json, "AxisType.Auto"); });
    write_key(json, "partition_spec");
    write_spec(json, even_spec(layout, mesh), mesh);
    end_object(json);
  });
}

// Encodes like Orbax's keys of the `_sharding` file (tensorstore_utils.get_sharding_tensorstore_spec:
// base64.urlsafe_b64encode). Digit k > 0 of a group has the last bits of byte i + k - 1; if there is no such byte, the
// digit is `=`.
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

}  // namespace

bool write_orbax(const Manifest& manifest, const Sink& sink) {
  const std::vector<std::string> layouts = layout_texts(manifest, [&](JsonWriter& json, const ParamLayout& layout) {
    write_value(json, named_sharding(layout, manifest.mesh));
  });
  JsonWriter json{.sink = &sink};
  begin_object(json);
  for (const ManifestParam& param : manifest.parameters) {
    next_line(json, 1);
    write_key(json, base64url(path_of(manifest, param)));
    write_json(json, layouts[param.layout]);
  }
  next_line(json, 0);
  end_object(json);
  return finish_json(json);
}

}  // namespace tpplan
