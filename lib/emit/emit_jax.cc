#include "emit/emit_jax.h"

#include "emit/emit_text.h"
#include "manifest/manifest_json.h"

namespace tpplan {

const FormatLimit kJaxLimitRows[2] = {
    {has_uneven_shards, "the shards of {} have different sizes",
     "minor axes are dropped until the rest divides the dim, so ranks hold more"},
    {has_segments, "the segments of {} are sharded separately",
     "the dim is sharded as a single segment, so ranks hold other elements"},
};

bool write_jax(const Manifest& manifest, const Sink& sink) {
  const Mesh& mesh = manifest.mesh;
  JsonWriter json{.sink = &sink};
  begin_document(json, mesh, "axis_shapes", "axis_names");
  next_line(json, 1);
  write_key(json, "specs");
  begin_object(json);
  write_params(json, manifest,
               [&](JsonWriter& out, const ParamLayout& layout) { write_spec(out, even_spec(layout, mesh), mesh); });
  return end_document(json);
}

}  // namespace tpplan
