#include "manifest/shardings_digest.h"

#include "base/sha256.h"
#include "manifest/manifest_json.h"

namespace tpplan {
namespace {

std::string mesh_text(const Manifest& manifest) {
  JsonWriter json;
  begin_array(json);
  write_mesh(json, manifest.mesh);
  write_value(json, to_text(manifest.uneven));
  end_array(json);
  return json.out;
}

std::string layout_text(const ParamLayout& layout, const Mesh& mesh) {
  JsonWriter json;
  begin_array(json);
  write_value(json, dtypes()[layout.dtype].name);
  write_array(json, layout.shape);
  write_spec(json, layout.sharding.spec, mesh);
  write_segments(json, layout.sharding.segments);
  end_array(json);
  return json.out;
}

}  // namespace

std::string shardings_sha256(const Manifest& manifest) {
  constexpr std::string_view kEnd("\0", 1);  // no path and no JSON text has a NUL
  Sha256 hash = begin_sha256();
  add(hash, mesh_text(manifest));
  std::vector<std::string> layouts;
  for (const ParamLayout& layout : manifest.layouts) layouts.push_back(layout_text(layout, manifest.mesh));
  for (const auto* tensors : {&manifest.parameters, &manifest.buffers}) {
    add(hash, kEnd);
    for (const ManifestParam& tensor : *tensors) {
      add(hash, path_of(manifest, tensor));
      add(hash, kEnd);
      add(hash, layouts[tensor.layout]);
    }
  }
  for (const std::vector<uint32_t>& group : manifest.tied) {
    add(hash, kEnd);
    for (const uint32_t index : group) add(hash, std::to_string(index) + ",");
  }
  return hex_of(hash);
}

}  // namespace tpplan
